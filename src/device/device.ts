import { EventEmitter } from 'node:events';
import { type Clock, systemClock } from '../domain/clock.ts';
import type { SigningAlg } from '../domain/device-key.ts';
import { acceptSequence, emptyWindow, judgeSequence, type ReplayWindow } from '../domain/replay-window.ts';
import { applyReport, type Twin, twinOf } from '../domain/twin.ts';
import type { EpochMs, JsonObject, Milliseconds, Uuid } from '../domain/values.ts';
import { PROTOCOL_VERSION } from '../protocol/constants.ts';
import type { CloudPayload, CmdAckPayload, HelloAckPayload, HelloPayload } from '../protocol/payloads.ts';
import { deviceTopic } from '../protocol/topics.ts';
import { CommandRunner } from './command-runner.ts';
import type { DeviceEvents, DeviceOptions } from './device-options.ts';
import { DeviceIdentity, type UnsignedMessage } from './identity.ts';
import { type Backoff, Link, type LinkSession } from './link.ts';
import { DeviceOutbox } from './outbox.ts';
import { toSendablePayload } from './sendable-payload.ts';
import { type DeviceMemory, Saver } from './store.ts';

export type { DeviceEvents, DeviceOptions } from './device-options.ts';

const RESPONSE_TIMEOUT_MS = 15_000;
const DEFAULT_BACKOFF: Backoff = { minMs: 1_000, maxMs: 60_000, random: Math.random };

/**
 * Starts a device, which signs in and reconnects after each loss of its connection, until `close`. Resolves when its
 * memory is loaded, possibly before it is online. Throws if the memory or a key is invalid, or if `state` does not fit
 * in a message.
 */
export async function connectDevice(options: DeviceOptions): Promise<Device> {
  const memory = (await options.store?.load()) ?? null;
  const device = new Device(options, memory);
  device.open();
  return device;
}

/** Client of the device protocol. Reports and acknowledgements are queued while it is offline. */
export class Device extends EventEmitter<DeviceEvents> {
  readonly #identity: DeviceIdentity;
  readonly #options: DeviceOptions;
  readonly #clock: Clock;
  readonly #startedAt: EpochMs;
  readonly #link: Link;
  readonly #outbox: DeviceOutbox;
  readonly #commands: CommandRunner;
  readonly #saver: Saver;
  #twin: Twin;
  /** The service's clock minus the local clock, as of the last `hello_ack`. */
  #clockOffset: Milliseconds = 0;
  #session: LinkSession | null = null;
  #online = false;
  #replayWindow: { clientId: string; window: ReplayWindow } = { clientId: '', window: emptyWindow() };
  #helloTimer: NodeJS.Timeout | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #closed = false;

  /** Use `connectDevice`. */
  constructor(options: DeviceOptions, memory: DeviceMemory | null) {
    super();
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#startedAt = this.#clock.now();
    this.#identity = new DeviceIdentity(options, options.secret, {
      signingAlg: options.signingAlg ?? 'hmac-sha256',
      keyVersion: options.keyVersion ?? 1,
      cloudPublicKeys: [...(memory?.cloudPublicKeys ?? []), ...(options.cloudPublicKeys ?? [])],
    });
    const state = options.state === undefined ? memory?.state : toSendablePayload({ state: options.state }).state;
    this.#twin = twinOf(state ?? {});
    this.#saver = new Saver(
      options.store,
      () => this.#memory(),
      (error) => this.emit('fault', error),
    );
    this.#outbox = new DeviceOutbox({
      limit: options.queueLimit ?? 256,
      nextSequence: Math.max(memory?.nextSequence ?? 1, options.initialSequence ?? 1),
      waiting: memory?.waiting ?? [],
      fullState: () => this.#twin.state,
      dropped: (message) => this.emit('dropped', message),
    });
    this.#commands = new CommandRunner({
      handlers: options.commands ?? {},
      commands: memory?.commands ?? [],
      ack: (ack) => this.#acknowledge(ack),
      saved: () => this.#saver.save(),
    });
    this.#link = new Link(
      {
        mqttUrl: options.mqttUrl,
        commandTopic: deviceTopic(options.tenantId, options.deviceId, 'cmd'),
        credentials: () => this.#identity.credentials(this.#now()),
        backoff: { ...DEFAULT_BACKOFF, ...options.backoff },
        keepaliveS: options.keepaliveS ?? 30,
        connectTimeoutMs: options.patienceMs ?? RESPONSE_TIMEOUT_MS,
        ...(options.tls === undefined ? {} : { tls: options.tls }),
      },
      {
        up: (session) => this.#up(session),
        message: (bytes, clientId) => this.#receive(bytes, clientId),
        down: (reason, retryInMs) => this.#down(reason, retryInMs),
      },
    );
    if (options.state !== undefined) void this.#outbox.addFullState();
  }

  get deviceId(): Uuid {
    return this.#identity.deviceId;
  }

  /** Signed in, and `hello` was answered. */
  get online(): boolean {
    return this.#online;
  }

  /** The local state, including changes that are not acknowledged yet. */
  get state(): JsonObject {
    return this.#twin.state;
  }

  /** Number of messages that the service has not acknowledged. */
  get waiting(): number {
    return this.#outbox.size;
  }

  open(): void {
    if (!this.#closed) this.#link.open();
  }

  /**
   * Reports a change as a merge patch (RFC 7396: null removes a property). Resolves with true when the service has
   * acknowledged the report, with false when it was dropped or the device was closed. A refused report is acknowledged
   * too, and raises `refused`. Throws if the state becomes too large or the change does not fit in a message.
   */
  report(patch: JsonObject): Promise<boolean> {
    const payload = toSendablePayload({ state: patch });
    this.#merge(payload.state);
    return this.#saveAndSend(this.#outbox.add('state', payload));
  }

  /** Replaces the full state. Resolves and throws as `report` does. */
  reportWhole(state: JsonObject): Promise<boolean> {
    this.#merge(toSendablePayload({ state }).state, true);
    return this.#saveAndSend(this.#outbox.addFullState());
  }

  /** Sets the new key after a rotation, and reconnects to sign in with it. */
  rekey(secret: string, keyVersion: number, signingAlg: SigningAlg = this.#identity.alg): void {
    this.#identity.rekey(secret, keyVersion, signingAlg);
    this.#link.drop('the key has changed');
  }

  /** Closes the connection and signs in again, for example after a change of network. Queued messages are sent then. */
  reconnect(reason: string): void {
    this.#link.drop(reason);
  }

  /**
   * Closes the device: aborts running commands, sends queued messages for at most `drainMs`, and stores the rest.
   * Pending reports resolve with false.
   */
  async close(drainMs: Milliseconds = 2_000): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#commands.stop();
    const deadline = Date.now() + drainMs;
    while (this.#online && this.#outbox.size > 0 && Date.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    this.#endSession();
    await this.#link.close();
    await this.#saver.save();
    this.#outbox.rejectWaiters();
    this.emit('closed');
  }

  #now(): EpochMs {
    return this.#clock.now() + this.#clockOffset;
  }

  #up(session: LinkSession): void {
    this.#session = session;
    const { firmware, deviceType, manifestVersion } = this.#options;
    const hello: HelloPayload = {
      protocol: PROTOCOL_VERSION,
      uptime_s: this.#uptimeS(),
      ...(firmware === undefined ? {} : { firmware: typeof firmware === 'function' ? firmware() : firmware }),
      ...(deviceType === undefined ? {} : { device_type: deviceType }),
      ...(manifestVersion === undefined ? {} : { manifest_version: manifestVersion }),
    };
    // `hello` is exempt from the replay window: it carries the next sequence number without using it.
    this.#publish(session, 1, { type: 'hello', payload: { ...hello }, sequence: this.#outbox.nextSequence });
    this.#helloTimer = setTimeout(
      () => this.#link.drop('no answer to hello'),
      this.#options.patienceMs ?? RESPONSE_TIMEOUT_MS,
    );
  }

  #down(reason: string, retryInMs: Milliseconds): void {
    this.#endSession();
    this.emit('offline', reason, retryInMs);
  }

  #endSession(): void {
    clearTimeout(this.#helloTimer);
    clearInterval(this.#heartbeatTimer);
    this.#session = null;
    this.#online = false;
    this.#outbox.resetSent();
  }

  #receive(bytes: Buffer, clientId: string): void {
    const checked = this.#identity.check(bytes, clientId, this.#now());
    if (!checked.ok) {
      this.emit('suspect', `${checked.code}: ${checked.reason}`);
      return;
    }
    const { fields, content } = checked;
    if (!this.#isFresh(clientId, fields.sequence_number, fields.message_id)) {
      this.emit('suspect', `replayed sequence number ${fields.sequence_number}`);
    } else if (content.ok) {
      this.#dispatch(content.value);
    } else {
      this.emit('suspect', content.reason);
    }
  }

  #isFresh(clientId: string, sequence: number, messageId: string): boolean {
    if (this.#replayWindow.clientId !== clientId) this.#replayWindow = { clientId, window: emptyWindow() };
    if (judgeSequence(this.#replayWindow.window, sequence, messageId) !== 'fresh') return false;
    this.#replayWindow.window = acceptSequence(this.#replayWindow.window, sequence, messageId);
    return true;
  }

  #dispatch(message: CloudPayload): void {
    switch (message.type) {
      case 'hello_ack':
        this.#onHelloAck(message.payload);
        break;
      case 'error':
        this.emit('refused', message.payload);
        break;
      case 'cmd':
        if (this.#closed) break;
        this.emit('command', message.payload);
        void this.#commands.handle(message.payload, () => this.#now());
        break;
      default:
        message satisfies never;
    }
  }

  #onHelloAck(hello: HelloAckPayload): void {
    if (this.#session === null || this.#online) return;
    clearTimeout(this.#helloTimer);
    this.#clockOffset = hello.server_time - this.#clock.now();
    this.#identity.setCloudKeys(hello.cloud_public_keys);
    this.#outbox.advanceSequence(hello.last_sequence);
    this.#online = true;
    this.#heartbeatTimer = setInterval(() => this.#sendHeartbeat(), hello.heartbeat_s * 1_000);
    this.emit('online', { clientId: this.#session.clientId, lastSequence: hello.last_sequence });
    this.#sendQueued();
  }

  #sendHeartbeat(): void {
    if (this.#session === null) return;
    const payload = { uptime_s: this.#uptimeS(), ...this.#heartbeatPayload() };
    this.#publish(this.#session, 0, { type: 'heartbeat', payload, sequence: this.#outbox.takeSequence() });
  }

  /**
   * If `heartbeat` throws, the heartbeat is sent without its fields: failing sensors must not take the device offline.
   */
  #heartbeatPayload(): JsonObject {
    try {
      return toSendablePayload({ ...this.#options.heartbeat?.() });
    } catch (error) {
      this.emit('fault', error);
      return {};
    }
  }

  #acknowledge(unchecked: CmdAckPayload): void {
    const ack = toSendablePayload(unchecked);
    if (ack.state !== undefined) this.#merge(ack.state);
    void this.#saveAndSend(this.#outbox.add('cmd_ack', ack as unknown as JsonObject));
    this.emit('acknowledged', ack);
  }

  #merge(report: JsonObject, full = false): void {
    // A copy: the merged state may share objects with the report, which is also queued for sending.
    const merged = applyReport(this.#twin, structuredClone(report), full);
    if (!merged.ok) throw new RangeError('the state is too large, or nested too deeply');
    if (merged.twin.state === this.#twin.state) return;
    this.#twin = merged.twin;
    this.emit('state', merged.twin.state);
  }

  #saveAndSend(acknowledged: Promise<boolean>): Promise<boolean> {
    void this.#saver.save();
    this.#sendQueued();
    return acknowledged;
  }

  #sendQueued(): void {
    const session = this.#session;
    if (session === null || !this.#online) return;
    for (const entry of this.#outbox.takeSendable()) {
      const { type, payload, messageId } = entry;
      const message = { type, payload, messageId, sequence: entry.sequence as number };
      this.#publish(session, 1, message, () => {
        if (this.#session !== session) return;
        this.#outbox.acknowledge(entry);
        void this.#saver.save();
        this.#sendQueued();
      });
    }
  }

  #publish(
    session: LinkSession,
    qos: 0 | 1,
    message: Omit<UnsignedMessage, 'clientId'>,
    acknowledged?: () => void,
  ): void {
    const { tenantId, deviceId } = this.#identity;
    const text = this.#identity.compose({ ...message, clientId: session.clientId }, this.#now());
    session.publish(deviceTopic(tenantId, deviceId, message.type), text, qos, acknowledged);
  }

  #uptimeS(): number {
    return Math.max(0, Math.floor((this.#clock.now() - this.#startedAt) / 1_000));
  }

  #memory(): DeviceMemory {
    return {
      nextSequence: this.#outbox.nextSequence,
      state: this.#twin.state,
      cloudPublicKeys: [...this.#identity.cloudPublicKeys],
      commands: this.#commands.list(),
      waiting: this.#outbox.waiting(),
    };
  }
}
