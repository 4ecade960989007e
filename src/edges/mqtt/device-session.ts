import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { EpochMs, Principal, Uuid } from '../../domain/values.ts';
import type { MessageSession } from '../../protocol/envelope.ts';
import { type FastPathSession, fastPathSession } from '../../protocol/fast-path.ts';
import type { CloudPayload } from '../../protocol/payloads.ts';
import type { SigningKey, VerifyingKey } from '../../protocol/signature.ts';
import { COMMAND_CHANNEL, type DeviceChannel, deviceTopic, isDeviceChannel } from '../../protocol/topics.ts';
import type { Connection } from './connection.ts';
import type { FlowControl } from './flow-control.ts';
import type { Inbox } from './inbox.ts';
import type { CloseReason } from './mqtt-meter.ts';
import { nextPacketId } from './packets.ts';
import { type AckWriter, type PendingPuback, PubackQueue } from './puback-queue.ts';

/** What waits for the `cmd` subscription; composed and signed when it is written. */
export interface PendingReply {
  content: Extract<CloudPayload, { type: 'hello_ack' | 'error' }>;
  requestId: string;
}

/** Errors kept for one session (contract §4). */
const MAX_PENDING_ERRORS = 8;
const MINUTE_MS = 60_000;

/** A device's signed-in connection. The secret that opened it lives here and nowhere else. */
export class DeviceSession implements MessageSession {
  readonly kind = 'device';
  readonly deviceId: Uuid;
  readonly tenantId: Uuid;
  readonly clientId: string;
  readonly keyVersion: number;
  /** Checks what the device signs. */
  readonly key: VerifyingKey;
  /** What its messages are held against before they are read. */
  readonly fastPath: FastPathSession | null;
  /** Signs what the device receives: its own secret, or the service's key. */
  readonly cloudKey: SigningKey;
  readonly by: Principal;
  readonly connection: Connection;
  readonly flow: FlowControl;
  readonly acks: PubackQueue;
  readonly commandTopic: string;
  expiresAt: EpochMs;
  /** The QoS that its own `cmd` subscription was granted, or null while there is none. */
  commandQos: 0 | 1 | null = null;
  /** How often it subscribed since nobody asks for its pending commands; while that is not 0, somebody does. */
  unreportedSubscriptions = 0;
  /** A message of it was lost sight of: it ends soon, without another acknowledgement. */
  failing = false;
  /** What still waits to be sent to its actor; made with the first message. */
  inbox: Inbox | null = null;
  /** Numbers what is sent to the device, from 1. */
  sequence = 0;

  readonly #prefix: string;
  /** The last that it may publish on, with its channel: most messages of a device have the same. */
  #topic: { text: string; channel: DeviceChannel } | null = null;
  #packetId = 0;
  #helloAck: PendingReply | null = null;
  #errors: PendingReply[] = [];
  #refusals: EpochMs[] = [];

  constructor(
    identity: Pick<
      DeviceSession,
      'deviceId' | 'tenantId' | 'clientId' | 'keyVersion' | 'key' | 'cloudKey' | 'expiresAt'
    >,
    connection: { wire: Connection; flow: FlowControl; ackWriter: AckWriter },
  ) {
    this.deviceId = identity.deviceId;
    this.tenantId = identity.tenantId;
    this.clientId = identity.clientId;
    this.keyVersion = identity.keyVersion;
    this.key = identity.key;
    this.fastPath = fastPathSession(identity);
    this.cloudKey = identity.cloudKey;
    this.expiresAt = identity.expiresAt;
    this.connection = connection.wire;
    this.flow = connection.flow;
    this.acks = new PubackQueue(connection.wire, connection.ackWriter);
    this.by = { kind: 'device', id: identity.deviceId, via: 'mqtt' };
    this.commandTopic = deviceTopic(identity.tenantId, identity.deviceId, COMMAND_CHANNEL);
    this.#prefix = this.commandTopic.slice(0, -COMMAND_CHANNEL.length);
  }

  get ended(): boolean {
    return this.connection.closing;
  }

  /** The channel of a topic that this device may publish on, or null. */
  channelOf(topic: string): DeviceChannel | null {
    if (topic === this.#topic?.text) return this.#topic.channel;
    if (!topic.startsWith(this.#prefix)) return null;
    const channel = topic.slice(this.#prefix.length);
    if (!isDeviceChannel(channel)) return null;
    this.#topic = { text: topic, channel };
    return channel;
  }

  /** Ends the session; what was settled is acknowledged first, what waits is not sent. */
  end(reason: CloseReason): void {
    if (this.ended) return;
    this.inbox?.close();
    this.acks.write();
    this.connection.close(reason);
  }

  /** A message needs no more attention: acknowledged in its turn when it was QoS 1. */
  completeMessage(arrived: { ack: PendingPuback | null; length: number }): void {
    if (arrived.ack !== null) this.acks.ready(arrived.ack);
    this.flow.finishMessage(arrived.length);
  }

  nextPacketId(): number {
    this.#packetId = nextPacketId(this.#packetId);
    return this.#packetId;
  }

  queueReply(kept: PendingReply): void {
    if (kept.content.type === 'hello_ack') this.#helloAck = kept;
    else {
      this.#errors.push(kept);
      if (this.#errors.length > MAX_PENDING_ERRORS) this.#errors.shift();
    }
  }

  /** What was kept, the `hello_ack` first; it is not kept any more. */
  takePendingReplies(): PendingReply[] {
    const kept = this.#helloAck === null ? this.#errors : [this.#helloAck, ...this.#errors];
    this.#helloAck = null;
    this.#errors = [];
    return kept;
  }

  /** Counts a refused message; answers how many there were within a minute. */
  countRefusal(now: EpochMs): number {
    this.#refusals = this.#refusals.filter((at) => now - at < MINUTE_MS);
    this.#refusals.push(now);
    return this.#refusals.length;
  }
}

/** The live device sessions of this process: at most one a device. */
export class DeviceSessions {
  readonly #byDevice = new Map<Uuid, DeviceSession>();

  sizes(): CollectionSizes {
    return { mqtt_device_sessions: this.#byDevice.size };
  }

  get(deviceId: Uuid): DeviceSession | undefined {
    return this.#byDevice.get(deviceId);
  }

  all(): Iterable<DeviceSession> {
    return this.#byDevice.values();
  }

  /** Answers the session that it replaces. */
  add(session: DeviceSession): DeviceSession | undefined {
    const old = this.#byDevice.get(session.deviceId);
    this.#byDevice.set(session.deviceId, session);
    return old;
  }

  /** Ignored when another session has taken its place. */
  remove(session: DeviceSession): void {
    if (this.#byDevice.get(session.deviceId) === session) this.#byDevice.delete(session.deviceId);
  }
}
