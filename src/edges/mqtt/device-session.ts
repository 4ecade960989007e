import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { EpochMs, Principal, Uuid } from '../../domain/values.ts';
import type { ActorRef } from '../../machines/outputs.ts';
import type { MessageSession } from '../../protocol/envelope.ts';
import { type FastPathSession, fastPathSession } from '../../protocol/fast-path.ts';
import type { CloudPayload } from '../../protocol/payloads.ts';
import type { SigningKey, VerifyingKey } from '../../protocol/signature.ts';
import {
  COMMAND_CHANNEL,
  type DeviceChannel,
  deviceTopic,
  isDeviceChannel,
  SELF_COMMAND_TOPIC,
  SELF_PREFIX,
} from '../../protocol/topics.ts';
import type { ClientConnection } from './client-connection.ts';
import type { SessionCloudKeys } from './device-authenticator.ts';
import type { FlowControl } from './flow-control.ts';
import { Inbox } from './inbox.ts';
import type { CloseReason } from './mqtt-meter.ts';
import { nextPacketId } from './packets.ts';
import { type AckWriter, type PendingPuback, PubackQueue } from './puback-queue.ts';

/** A reply that waits for the `cmd` subscription; composed and signed when it is written. */
export interface PendingReply {
  content: Extract<CloudPayload, { type: 'hello_ack' | 'error' }>;
  requestId: string;
}

/** The certificate that opened a session. */
export interface SessionCertificate {
  caId: Uuid;
  serialNumber: string;
}

/** The key that verifies the messages of a session, or the certificate that authenticates its channel. */
export type DeviceCredential =
  | { key: VerifyingKey }
  | { key: null; certificate: SessionCertificate; sentClientId: string };

/** Error replies kept for one session (contract §4). */
const MAX_PENDING_ERRORS = 8;
const MINUTE_MS = 60_000;

/** Session of a signed-in device. The secret that opened it is kept here only. */
export class DeviceSession {
  readonly kind = 'device';
  /** The device's actor. */
  readonly actor: ActorRef;
  readonly deviceId: Uuid;
  readonly tenantId: Uuid;
  /** Identifies the session: the client identifier of the CONNECT, or a new one for a sign-in with a certificate. */
  readonly clientId: string;
  /** The client identifier of the CONNECT, which messages to the device contain. */
  readonly sentClientId: string;
  readonly keyVersion: number;
  /** What the device's messages are checked against; null if its certificate authenticates the channel. */
  readonly signed: MessageSession | null;
  /** The certificate that opened the session; null if a signature did. */
  readonly certificate: SessionCertificate | null;
  /** Inputs of the fast-path check (`fast-path.ts`); null if the messages of this session cannot use it. */
  readonly fastPath: FastPathSession | null;
  readonly by: Principal;
  readonly connection: ClientConnection;
  readonly flow: FlowControl;
  readonly acks: PubackQueue;
  readonly commandTopic: string;
  /** The filter of the `cmd` subscription: `commandTopic`, or its short form. */
  commandFilter: string;
  expiresAt: EpochMs;
  /** Granted QoS of the `cmd` subscription; null while there is none. */
  commandQos: 0 | 1 | null = null;
  /** Grants of the `cmd` subscription that are not reported to `DeviceSessions` yet; above 0 while a report runs. */
  unreportedSubscriptions = 0;
  /** The outcome of a message is unknown: the session ends soon and acknowledges nothing more. */
  failing = false;
  /** Queues messages for the device's actor. */
  readonly inbox: Inbox;
  /** Sequence number of the last message to the device; the first is 1. */
  sequence = 0;

  readonly #topicPrefix: string;
  readonly #cloudKeys: SessionCloudKeys;
  #helloAcknowledged = false;
  /** Cache of the last permitted topic and its channel: most messages of a device have the same. */
  #lastTopic: { text: string; channel: DeviceChannel } | null = null;
  #packetId = 0;
  #helloAck: PendingReply | null = null;
  #errors: PendingReply[] = [];
  #refusals: EpochMs[] = [];

  constructor(
    identity: Pick<DeviceSession, 'deviceId' | 'tenantId' | 'clientId' | 'keyVersion' | 'expiresAt'> & {
      cloudKeys: SessionCloudKeys;
    } & DeviceCredential,
    parts: { connection: ClientConnection; flow: FlowControl; ackWriter: AckWriter },
  ) {
    this.actor = { kind: 'device', id: identity.deviceId };
    this.deviceId = identity.deviceId;
    this.tenantId = identity.tenantId;
    this.clientId = identity.clientId;
    this.keyVersion = identity.keyVersion;
    if (identity.key === null) {
      this.sentClientId = identity.sentClientId;
      this.certificate = identity.certificate;
      this.signed = null;
      this.fastPath = null;
    } else {
      const { deviceId, tenantId, clientId, key, keyVersion } = identity;
      this.sentClientId = clientId;
      this.certificate = null;
      this.signed = { deviceId, tenantId, clientId, key, keyVersion };
      this.fastPath = fastPathSession(this.signed);
    }
    this.#cloudKeys = identity.cloudKeys;
    this.expiresAt = identity.expiresAt;
    this.connection = parts.connection;
    this.flow = parts.flow;
    this.inbox = new Inbox(parts.flow);
    this.acks = new PubackQueue(parts.connection, parts.ackWriter);
    this.by = { id: identity.deviceId, via: 'mqtt', kind: 'device' };
    this.commandTopic = deviceTopic(identity.tenantId, identity.deviceId, COMMAND_CHANNEL);
    this.commandFilter = this.commandTopic;
    this.#topicPrefix = this.commandTopic.slice(0, -COMMAND_CHANNEL.length);
  }

  /** Signs messages to the device: the device's secret, or a key of the service. */
  get cloudKey(): SigningKey {
    return this.#helloAcknowledged ? this.#cloudKeys.afterHello : this.#cloudKeys.first;
  }

  get ended(): boolean {
    return this.connection.closing;
  }

  /** The channel of a topic; null if this device may not publish to it. */
  channelOf(topic: string): DeviceChannel | null {
    if (topic === this.#lastTopic?.text) return this.#lastTopic.channel;
    const prefix = this.certificate !== null && topic.startsWith(SELF_PREFIX) ? SELF_PREFIX : this.#topicPrefix;
    if (!topic.startsWith(prefix)) return null;
    const channel = topic.slice(prefix.length);
    if (!isDeviceChannel(channel)) return null;
    this.#lastTopic = { text: topic, channel };
    return channel;
  }

  /** Whether the device may subscribe to this filter. */
  isCommandFilter(filter: string): boolean {
    return filter === this.commandTopic || (this.certificate !== null && filter === SELF_COMMAND_TOPIC);
  }

  /** Ends the session: acknowledges completed messages first, discards waiting ones. */
  end(reason: CloseReason): void {
    if (this.ended) return;
    this.inbox.close();
    this.acks.write();
    this.connection.close(reason);
  }

  /** Ends the processing of a message. A QoS 1 message is acknowledged, in order. */
  completeMessage(received: { ack: PendingPuback | null; length: number }): void {
    if (received.ack !== null) this.acks.ready(received.ack);
    this.flow.finishMessage(received.length);
  }

  /** The device gets the service's keys with a `hello_ack` that was written. */
  acknowledgeHello(): void {
    this.#helloAcknowledged = true;
  }

  nextPacketId(): number {
    this.#packetId = nextPacketId(this.#packetId);
    return this.#packetId;
  }

  queueReply(reply: PendingReply): void {
    if (reply.content.type === 'hello_ack') this.#helloAck = reply;
    else {
      this.#errors.push(reply);
      if (this.#errors.length > MAX_PENDING_ERRORS) this.#errors.shift();
    }
  }

  /** Removes and returns the pending replies, the `hello_ack` first. */
  takePendingReplies(): PendingReply[] {
    const replies = this.#helloAck === null ? this.#errors : [this.#helloAck, ...this.#errors];
    this.#helloAck = null;
    this.#errors = [];
    return replies;
  }

  /** Counts a refused message; returns the number of refusals within the last minute. */
  countRefusal(now: EpochMs): number {
    this.#refusals = this.#refusals.filter((at) => now - at < MINUTE_MS);
    this.#refusals.push(now);
    return this.#refusals.length;
  }
}

/** The open device sessions of this process, at most one per device. */
export class DeviceSessionRegistry {
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

  /** Returns the session that was replaced. */
  add(session: DeviceSession): DeviceSession | undefined {
    const old = this.#byDevice.get(session.deviceId);
    this.#byDevice.set(session.deviceId, session);
    return old;
  }

  /** Ignored if another session has replaced this one. */
  remove(session: DeviceSession): void {
    if (this.#byDevice.get(session.deviceId) === session) this.#byDevice.delete(session.deviceId);
  }
}
