import { EventEmitter } from 'node:events';
import { type Clock, systemClock } from '../domain/clock.ts';
import { acceptSequence, emptyWindow, judgeSequence, type ReplayWindow } from '../domain/replay-window.ts';
import { applyReport, type Twin, twinOf } from '../domain/twin.ts';
import type { EpochMs, JsonObject, Milliseconds, Uuid } from '../domain/values.ts';
import { PROTOCOL_VERSION } from '../protocol/constants.ts';
import type {
  CloudPayload,
  CmdAckPayload,
  CmdPayload,
  ErrorPayload,
  HeartbeatPayload,
  HelloAckPayload,
  HelloPayload,
} from '../protocol/payloads.ts';
import type { SigningAlg } from '../protocol/signature.ts';
import { deviceTopic } from '../protocol/topics.ts';
import { type CommandHandler, CommandRunner } from './command-runner.ts';
import { Identity, type UnsignedMessage } from './identity.ts';
import { type Backoff, Link, type LinkSession, type TlsOptions } from './link.ts';
import { Outbox } from './outbox.ts';
import { toSendablePayload } from './sendable-payload.ts';
import { type DeviceMemory, type DeviceStore, Saver, type WaitingMessage } from './store.ts';

/** The answer to a registration (`signing_alg`, `key_version`, … are its fields), and what the device does. */
export interface DeviceOptions {
  mqttUrl: string;
  tenantId: Uuid;
  deviceId: Uuid;
  /** `device_secret`, or the seed of the device's own Ed25519 key. */
  secret: string;
  /** Default `hmac-sha256`. */
  signingAlg?: SigningAlg;
  /** Default 1. */
  keyVersion?: number;
  /** What an Ed25519 device checks commands with; the service announces changes at every sign-in. */
  cloudPublicKeys?: readonly string[];
  /** The first number to use; default 1. */
  initialSequence?: number;
  /** The state at the start, reported whole. Default: what `store` holds, or nothing, and no report. */
  state?: JsonObject;
  /** By action. Another action's command fails. */
  commands?: Readonly<Record<string, CommandHandler>>;
  /** What `hello` says beside the protocol; a function is asked at every sign-in, for what an update changes. */
  firmware?: string | (() => string);
  deviceType?: string;
  manifestVersion?: number;
  /** Adds to `uptime_s` in every heartbeat. */
  heartbeat?: () => HeartbeatPayload;
  /** Where counter, state, commands and unacknowledged messages outlive the process. Default: nowhere. */
  store?: DeviceStore;
  /** Messages that may wait; beyond it state reports are joined and then the oldest are given up. Default 256. */
  queueLimit?: number;
  clock?: Clock;
  backoff?: Partial<Backoff>;
  tls?: TlsOptions;
  /** MQTT keep-alive in seconds; default 30. */
  keepaliveS?: number;
  /** How long a connection, and then the answer to `hello`, may take; default 15 s. */
  patienceMs?: Milliseconds;
}

export interface DeviceEvents {
  /** Signed in and greeted: what waited is being sent. */
  online: [session: { clientId: string; lastSequence: number }];
  /** Not, or no longer, connected; the next try follows. */
  offline: [reason: string, retryInMs: Milliseconds];
  command: [command: CmdPayload];
  /** What was answered to a command. */
  acknowledged: [ack: CmdAckPayload];
  /** The local state changed, by a report or a command. */
  state: [state: JsonObject];
  /** The service refused one of our messages. */
  refused: [refusal: ErrorPayload];
  /** Something on `cmd` that the service did not send to this session: ignored. */
  suspect: [reason: string];
  /** A message was given up because too many wait. */
  dropped: [message: WaitingMessage];
  /** The store failed, or `heartbeat` did. */
  fault: [error: unknown];
  closed: [];
}

const RESPONSE_TIMEOUT_MS = 15_000;
const DEFAULT_BACKOFF: Backoff = { minMs: 1_000, maxMs: 60_000, random: Math.random };

/**
 * Starts a device: signs in, and again after every loss, until `close`. Resolves when its memory is loaded; it need
 * not be online then. Throws when the memory or a key is damaged, or no message could carry the state.
 */
export async function connectDevice(options: DeviceOptions): Promise<Device> {
  const memory = (await options.store?.load()) ?? null;
  const device = new Device(options, memory);
  device.open();
  return device;
}

/** A device's side of the protocol. Reports and acknowledgements wait while it is offline. */
export class Device extends EventEmitter<DeviceEvents> {
  readonly #identity: Identity;
  readonly #options: DeviceOptions;
  readonly #clock: Clock;
  readonly #startedAt: EpochMs;
  readonly #link: Link;
  readonly #outbox: Outbox;
  readonly #commands: CommandRunner;
  readonly #saver: Saver;
  #twin: Twin;
  /** The service's clock minus ours, as of the last greeting. */
  #clockOffset: Milliseconds = 0;
  #session: LinkSession | null = null;
  #greeted = false;
  #received: { clientId: string; window: ReplayWindow } = { clientId: '', window: emptyWindow() };
  #helloTimer: NodeJS.Timeout | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #closed = false;

  /** Use `connectDevice`. */
  constructor(options: DeviceOptions, memory: DeviceMemory | null) {
    super();
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#startedAt = this.#clock.now();
    this.#identity = new Identity(options, options.secret, {
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
    this.#outbox = new Outbox({
      limit: options.queueLimit ?? 256,
      nextSequence: Math.max(memory?.nextSequence ?? 1, options.initialSequence ?? 1),
      waiting: memory?.waiting ?? [],
      wholeState: () => this.#twin.state,
      dropped: (message) => this.emit('dropped', message),
    });
    this.#commands = new CommandRunner({
      handlers: options.commands ?? {},
      commands: memory?.commands ?? [],
      ack: (ack) => this.#acknowledge(ack),
      remembered: () => this.#saver.save(),
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

  /** Signed in and greeted by the service. */
  get online(): boolean {
    return this.#greeted;
  }

  /** What this device has reported, or is about to. */
  get state(): JsonObject {
    return this.#twin.state;
  }

  /** Messages that the service has not acknowledged. */
  get waiting(): number {
    return this.#outbox.size;
  }

  open(): void {
    if (!this.#closed) this.#link.open();
  }

  /**
   * Reports a change (RFC 7396: null removes). Resolves with true when the service has acknowledged it, with false
   * when it was given up; a refusal is acknowledged too, and told by `refused`. Throws when the state grows too large, or
   * no message could carry the change.
   */
  report(patch: JsonObject): Promise<boolean> {
    const payload = toSendablePayload({ state: patch });
    this.#merge(payload.state);
    return this.#queued(this.#outbox.add('state', payload));
  }

  /** Replaces the whole state. Resolves and throws as `report`. */
  reportWhole(state: JsonObject): Promise<boolean> {
    this.#merge(toSendablePayload({ state }).state, true);
    return this.#queued(this.#outbox.addFullState());
  }

  /** A new key after a rotation: from the next sign-in on, which follows at once. */
  rekey(secret: string, keyVersion: number, signingAlg: SigningAlg = this.#identity.alg): void {
    this.#identity.rekey(secret, keyVersion, signingAlg);
    this.#link.drop('the key was changed');
  }

  /** Signs in anew, as after a change of network; what waits is sent then. */
  reconnect(reason: string): void {
    this.#link.drop(reason);
  }

  /**
   * Stops: running commands are told so, what can still be sent goes out within `drainMs`, the rest is stored. All who
   * wait for a report are answered.
   */
  async close(drainMs: Milliseconds = 2_000): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#commands.stop();
    const until = Date.now() + drainMs;
    while (this.#greeted && this.#outbox.size > 0 && Date.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    this.#quiet();
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
    // A hello stands outside the replay window: it names the next number and does not use it.
    this.#publish(session, 1, { type: 'hello', payload: { ...hello }, sequence: this.#outbox.nextSequence });
    this.#helloTimer = setTimeout(
      () => this.#link.drop('no answer to hello'),
      this.#options.patienceMs ?? RESPONSE_TIMEOUT_MS,
    );
  }

  #down(reason: string, retryInMs: Milliseconds): void {
    this.#quiet();
    this.emit('offline', reason, retryInMs);
  }

  #quiet(): void {
    clearTimeout(this.#helloTimer);
    clearInterval(this.#heartbeatTimer);
    this.#session = null;
    this.#greeted = false;
    this.#outbox.resetSent();
  }

  #receive(bytes: Buffer, clientId: string): void {
    const checked = this.#identity.check(bytes, clientId, this.#now());
    if (!checked.ok) {
      this.emit('suspect', `${checked.refusal.code}: ${checked.refusal.reason}`);
      return;
    }
    const { fields, body } = checked.message;
    if (!this.#isFirstTime(clientId, fields.sequence_number, fields.message_id)) {
      this.emit('suspect', `sequence number ${fields.sequence_number} came before`);
    } else if (body.ok) {
      this.#take(body.value);
    } else {
      this.emit('suspect', body.reason);
    }
  }

  #isFirstTime(clientId: string, sequence: number, messageId: string): boolean {
    if (this.#received.clientId !== clientId) this.#received = { clientId, window: emptyWindow() };
    if (judgeSequence(this.#received.window, sequence, messageId) !== 'fresh') return false;
    this.#received.window = acceptSequence(this.#received.window, sequence, messageId);
    return true;
  }

  #take(message: CloudPayload): void {
    switch (message.type) {
      case 'hello_ack':
        this.#greet(message.payload);
        break;
      case 'error':
        this.emit('refused', message.payload);
        break;
      case 'cmd':
        if (this.#closed) break;
        this.emit('command', message.payload);
        void this.#commands.handle(message.payload, () => this.#now());
        break;
    }
  }

  #greet(hello: HelloAckPayload): void {
    if (this.#session === null || this.#greeted) return;
    clearTimeout(this.#helloTimer);
    this.#clockOffset = hello.server_time - this.#clock.now();
    this.#identity.learnCloudKeys(hello.cloud_public_keys);
    this.#outbox.advanceSequence(hello.last_sequence);
    this.#greeted = true;
    this.#heartbeatTimer = setInterval(() => this.#beat(), hello.heartbeat_s * 1_000);
    this.emit('online', { clientId: this.#session.clientId, lastSequence: hello.last_sequence });
    this.#pump();
  }

  #beat(): void {
    if (this.#session === null) return;
    const payload = { uptime_s: this.#uptimeS(), ...this.#vitals() };
    this.#publish(this.#session, 0, { type: 'heartbeat', payload, sequence: this.#outbox.takeSequence() });
  }

  /** A device whose sensors fail lives all the same. */
  #vitals(): JsonObject {
    try {
      return toSendablePayload({ ...this.#options.heartbeat?.() });
    } catch (error) {
      this.emit('fault', error);
      return {};
    }
  }

  #acknowledge(given: CmdAckPayload): void {
    const ack = toSendablePayload(given);
    if (ack.state !== undefined) this.#merge(ack.state);
    void this.#queued(this.#outbox.add('cmd_ack', ack as unknown as JsonObject));
    this.emit('acknowledged', ack);
  }

  #merge(report: JsonObject, full = false): void {
    // The state may become the one that is merged, and what is sent is another's.
    const merged = applyReport(this.#twin, structuredClone(report), full);
    if (!merged.ok) throw new RangeError('the state is too large, or nested too deeply');
    if (merged.twin.state === this.#twin.state) return;
    this.#twin = merged.twin;
    this.emit('state', merged.twin.state);
  }

  #queued(acknowledged: Promise<boolean>): Promise<boolean> {
    void this.#saver.save();
    this.#pump();
    return acknowledged;
  }

  #pump(): void {
    const session = this.#session;
    if (session === null || !this.#greeted) return;
    for (const entry of this.#outbox.takeSendable()) {
      const { type, payload, messageId } = entry;
      const utterance = { type, payload, messageId, sequence: entry.sequence as number };
      this.#publish(session, 1, utterance, () => {
        if (this.#session !== session) return;
        this.#outbox.acknowledge(entry);
        void this.#saver.save();
        this.#pump();
      });
    }
  }

  #publish(
    session: LinkSession,
    qos: 0 | 1,
    utterance: Omit<UnsignedMessage, 'clientId'>,
    acknowledged?: () => void,
  ): void {
    const { tenantId, deviceId } = this.#identity;
    const text = this.#identity.compose({ ...utterance, clientId: session.clientId }, this.#now());
    session.publish(deviceTopic(tenantId, deviceId, utterance.type), text, qos, acknowledged);
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
