import { NoSuchActor, Overloaded, Quarantined, type Reply } from '../../actors/contract.ts';
import { referenceOf } from '../../domain/clock.ts';
import type { Log } from '../../domain/log.ts';
import { toPrintable } from '../../domain/printable-text.ts';
import type { MessageRefusalCode } from '../../domain/refusals.ts';
import { isCanonicalUuid } from '../../domain/uuid.ts';
import type { EpochMs, JsonObject, Uuid } from '../../domain/values.ts';
import type { CommandContext } from '../../machines/command-types.ts';
import type { DeviceEvent, MessageHeader, VerificationWatch } from '../../machines/device-types.ts';
import type { Services } from '../../operations/operation.ts';
import type { MessageIdentity } from '../../protocol/canonical.ts';
import { HEARTBEAT_S } from '../../protocol/constants.ts';
import {
  type CheckedMessage,
  checkMessage,
  type MessageRefusal,
  type MessageSession,
} from '../../protocol/envelope.ts';
import { type FastPathSession, FastPathVerifier } from '../../protocol/fast-path.ts';
import {
  type DevicePayload,
  type HeartbeatPayload,
  MAX_DEVICE_TYPE_LENGTH,
  MAX_ERROR_LENGTH,
  MAX_FIRMWARE_LENGTH,
  stateSpan,
} from '../../protocol/payloads.ts';
import { type DeviceChannel, deviceTopic } from '../../protocol/topics.ts';
import { readUnsignedMessage } from '../../protocol/unsigned-message.ts';
import type { StateReport } from '../../services/property-times.ts';
import type { CommandWriter } from './command-writer.ts';
import type { DeviceSession } from './device-session.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { MqttMeter } from './mqtt-meter.ts';
import type { PublishPacket } from './packets.ts';
import { ReceivedMessage, type ReceivedMessageHandler } from './received-message.ts';
import { publishToUsers } from './user-publisher.ts';
import type { MqttUserSessions } from './user-session.ts';

export interface MessageReceiverParts {
  services: Pick<Services, 'actors' | 'sessions' | 'deviceActivity' | 'clock' | 'newId' | 'settings'>;
  /** The commands of a device that wait for their expected state to be reported. */
  watches(deviceId: Uuid): readonly VerificationWatch[];
  commandWriter: CommandWriter;
  userSessions: MqttUserSessions;
  limits: MqttLimits;
  meter: MqttMeter;
  log: Log;
}

/**
 * Receives the messages that devices publish. Checks envelope and signature, in the contract's order; the device actor
 * decides on sequence, state and content. A message is complete (and acknowledged, if QoS 1) when its effects are
 * durable.
 */
export class MessageReceiver implements ReceivedMessageHandler {
  readonly #parts: MessageReceiverParts;
  readonly #fastPath = new FastPathVerifier();
  #count = 0;

  constructor(parts: MessageReceiverParts) {
    this.#parts = parts;
  }

  receive(session: DeviceSession, packet: PublishPacket): void {
    const { clock, sessions } = this.#parts.services;
    const channel = session.channelOf(packet.topic);
    const now = clock.now();
    // Never permitted for a device: ends the session without an acknowledgement.
    if (channel === null || packet.retain || packet.qos > 1) session.end('forbidden');
    else if (session.expiresAt <= now) session.end('expired');
    if (channel === null || session.ended) return;
    session.flow.startMessage(packet.length);
    const received = new ReceivedMessage(this, {
      session,
      channel,
      at: now,
      index: this.#count++,
      ack: packet.packetId === null ? null : session.acks.expect(packet.packetId),
      length: packet.length,
    });
    const checked =
      session.signed === null
        ? this.#readUnsigned(packet.payload, channel, now)
        : this.#check(packet.payload, session.signed, session.fastPath, channel, now);
    if (!checked.ok) {
      if (checked.signatureValid) received.messageId = checked.messageId ?? '';
      this.#refuse(received, checked.code);
      session.completeMessage(received);
      return;
    }
    this.#parts.meter.received(channel);
    const { content, fields } = checked;
    received.messageId = fields.message_id;
    received.sequence = fields.sequence_number;
    if (channel === 'hello' && !content.ok) {
      // A hello is outside the replay window: it uses no sequence number.
      sessions.recordActivity(session.deviceId, { at: now });
      this.#refuse(received, 'PAYLOAD_INVALID');
      session.completeMessage(received);
      return;
    }
    const event = this.#eventOf(session, checked, now);
    received.event = event;
    if (event.type === 'ack.reported') received.lookup = this.#lookup(session, event);
    if (this.#parts.userSessions.hasTenant(session.tenantId)) received.packet = withFullTopic(packet, session, channel);
    session.inbox.enqueue(received);
  }

  /** Implements `ReceivedMessageHandler`, as the next two. */
  send(received: ReceivedMessage): void {
    const { session, event } = received;
    if (event !== null) this.#parts.services.actors.post(session.actor, event, received);
  }

  onCommitted(received: ReceivedMessage, reply: Reply): void {
    const { session } = received;
    session.inbox.resetBackoff();
    try {
      // The device actor does not accept the event: it was revoked, or the key that verified the message has ended.
      if (!reply.understood) session.end('ended');
      else this.#handleReply(received, reply);
    } catch (error) {
      this.#parts.log.error(
        { err: error, deviceId: session.deviceId },
        'device message committed but not answered; ending session',
      );
      session.end('failed');
    }
  }

  onFailed(received: ReceivedMessage, error: unknown): void {
    if (error instanceof Overloaded) received.session.inbox.retryLater(received);
    else this.#handleFault(received, error);
  }

  /** While the service's time is being corrected, a timestamp is accepted if it is valid by either clock. */
  #check(
    bytes: Buffer,
    session: MessageSession,
    fastPath: FastPathSession | null,
    channel: DeviceChannel,
    now: EpochMs,
  ): CheckedMessage<DevicePayload, MessageIdentity> | MessageRefusal {
    const verified = fastPath === null ? null : this.#fastPath.verify(bytes, fastPath, channel, now);
    if (verified !== null) return verified;
    const checked = checkMessage(bytes, session, channel, now);
    if (checked.ok || checked.code !== 'TIMESTAMP_SKEWED') return checked;
    return checkMessage(bytes, session, channel, referenceOf(this.#parts.services.clock));
  }

  #readUnsigned(bytes: Buffer, channel: DeviceChannel, now: EpochMs): ReadableMessage | MessageRefusal {
    const { clock, newId } = this.#parts.services;
    const read = readUnsignedMessage(bytes, channel, [now, referenceOf(clock)]);
    if (!read.ok) {
      const { code, messageId } = read;
      return { ok: false, code, reason: code, signatureValid: true, ...(messageId !== null && { messageId }) };
    }
    const { messageId = newId(), sequenceNumber = null } = read.numbered ?? {};
    return { ok: true, fields: { message_id: messageId, sequence_number: sequenceNumber }, content: read.content };
  }

  #eventOf(session: DeviceSession, checked: ReadableMessage, at: EpochMs): DeviceEvent {
    const { by, deviceId, keyVersion } = session;
    const { fields, content, canonical } = checked;
    const { historyBytes } = this.#parts.services.settings;
    const header: MessageHeader = {
      ...{ sequenceNumber: fields.sequence_number, messageId: fields.message_id, keyVersion },
      ...(fields.timestamp !== undefined && { deviceAt: fields.timestamp }),
      ...(historyBytes !== null && { historyBytes }),
    };
    if (!content.ok) return { type: 'message.rejected', at, by, header, code: 'PAYLOAD_INVALID' };
    switch (content.value.channel) {
      case 'heartbeat':
        return { type: 'heartbeat.received', at, by, header, ...heartbeatTelemetry(content.value.payload) };
      case 'hello': {
        const { firmware, device_type, manifest_version = null, uptime_s } = content.value.payload;
        const deviceType = device_type === undefined ? null : toPrintable(device_type, MAX_DEVICE_TYPE_LENGTH);
        return {
          type: 'hello.received',
          at,
          by,
          header,
          ...(firmware === undefined ? {} : { firmware: toPrintable(firmware, MAX_FIRMWARE_LENGTH) }),
          telemetry: {
            // A greater one is no version of a manifest, and more than an Int of GraphQL.
            ...{ deviceType, manifestVersion: manifest_version && Math.min(manifest_version, 2 ** 31 - 1) },
            ...(uptime_s !== undefined && { uptimeS: uptime_s }),
          },
          watches: this.#parts.watches(deviceId),
        };
      }
      case 'state': {
        const { state, full } = content.value.payload;
        return {
          type: 'state.reported',
          at,
          by,
          header,
          state,
          full: full ?? false,
          written: canonical && stateSpan(content.value.payload, canonical),
          watches: this.#parts.watches(deviceId),
        };
      }
      case 'cmd_ack': {
        const { command_id: commandId, state, status, progress, result, error } = content.value.payload;
        return {
          type: 'ack.reported',
          at,
          by,
          header,
          commandId,
          known: false,
          ack: {
            status,
            ...(progress === undefined ? {} : { progress }),
            ...(result === undefined ? {} : { result }),
            ...(error === undefined ? {} : { error: toPrintable(error, MAX_ERROR_LENGTH) }),
          },
          ...(state === undefined ? {} : { state }),
          watches: this.#parts.watches(deviceId),
        };
      }
    }
  }

  /** Checks that the command belongs to this device: at once if it is in memory, otherwise in the returned look-up. */
  #lookup(session: DeviceSession, event: DeviceEvent & { type: 'ack.reported' }): (() => Promise<void>) | null {
    if (!isCanonicalUuid(event.commandId)) return null;
    const { actors } = this.#parts.services;
    const ref = { kind: 'command', id: event.commandId } as const;
    const live = actors.peek<CommandContext>(ref);
    if (live !== undefined) {
      event.known = live.snapshot.context.fixed.deviceId === session.deviceId;
      return null;
    }
    return async () => {
      const command = await actors.read<CommandContext>(ref);
      event.known = command?.snapshot.context.fixed.deviceId === session.deviceId;
    };
  }

  #handleReply(received: ReceivedMessage, reply: Reply): void {
    const { session, event, at } = received;
    const { sessions } = this.#parts.services;
    const reported = reply.outputs.find((output) => output.type === 'device.telemetry');
    sessions.recordActivity(session.deviceId, reported === undefined ? { at } : reported);
    for (const output of reply.outputs) {
      if (output.type === 'message.refused') this.#refuse(received, output.code);
      else if (output.type === 'message.accepted') this.#accept(received, output);
      else if (output.type === 'hello.accepted') {
        this.#recordHello(received, output);
        this.#sendHelloAck(received, output);
      }
    }
    if (event?.type !== 'ack.reported') session.completeMessage(received);
    else {
      reply.messagesDelivered.then(
        () => session.completeMessage(received),
        (error: unknown) => {
          // A quarantined command processes the acknowledgement on its release: the device need not send it again.
          if (error instanceof Quarantined) session.completeMessage(received);
          else this.#handleFault(received, error);
        },
      );
    }
  }

  #accept(
    { session, event, at, channel, sequence, packet }: ReceivedMessage,
    { repeat, applied }: AcceptedMessage,
  ): void {
    const reported = applied ? { state: applied, full: false } : repeat ? null : reportedStateOf(event);
    const { deviceActivity } = this.#parts.services;
    deviceActivity.record(session, { at, channel, sequence, refusal: null, duplicate: repeat }, reported);
    if (repeat || packet === null) return;
    const { topic, payload, qos } = packet;
    publishToUsers(this.#parts.userSessions, { tenantId: session.tenantId, topic, payload, qos });
  }

  #recordHello(
    { session, event, at }: ReceivedMessage,
    { previousFirmware }: { previousFirmware?: string | null },
  ): void {
    const { sessions } = this.#parts.services;
    const firmware = event?.type === 'hello.received' ? (event.firmware ?? null) : null;
    sessions.recordConnection(session.deviceId, { at, event: 'hello', firmware });
    if (firmware === null || previousFirmware === undefined) return;
    sessions.recordConnection(session.deviceId, { at, event: 'firmware', firmware, previous: previousFirmware });
  }

  #sendHelloAck(received: ReceivedMessage, hello: { lastSequence: number; keyVersion: number }): void {
    const { clock, settings } = this.#parts.services;
    this.#accept(received, { repeat: false });
    this.#parts.commandWriter.send(received.session, received.messageId ?? '', {
      type: 'hello_ack',
      payload: {
        server_time: referenceOf(clock),
        last_sequence: hello.lastSequence,
        heartbeat_s: HEARTBEAT_S,
        key_version: hello.keyVersion,
        cloud_public_keys: [...settings.cloudPublicKeys],
      },
    });
  }

  #refuse({ session, channel, sequence, messageId }: ReceivedMessage, code: MessageRefusalCode): void {
    const { services, meter, commandWriter, limits } = this.#parts;
    const { sessions, deviceActivity, clock } = services;
    meter.refused(code);
    sessions.recordRefusal(session.deviceId);
    deviceActivity.record(session, { at: clock.now(), channel, sequence, refusal: code, duplicate: false });
    if (messageId !== null) {
      commandWriter.send(session, messageId, { type: 'error', payload: { code, message_id: messageId } });
    }
    if (session.countRefusal(clock.now()) < limits.refusalsPerMinute) return;
    // The refused message is acknowledged in this event-loop task, before the session ends.
    queueMicrotask(() => session.end('refusals'));
  }

  #handleFault(received: ReceivedMessage, error: unknown): void {
    const { session } = received;
    if (session.ended || session.failing) return;
    if (error instanceof NoSuchActor) session.end('ended');
    else if (isRefusedData(error)) {
      this.#refuse(received, 'PAYLOAD_INVALID');
      session.completeMessage(received);
    } else this.#endAfterLoss(session, error);
  }

  /**
   * The message's outcome is unknown, so neither it nor later messages are acknowledged: the session ends and the
   * device sends them again. Sessions end at random times to spread reconnects, and are not read until then.
   */
  #endAfterLoss(session: DeviceSession, error: unknown): void {
    session.inbox.close();
    session.flow.pause('failing');
    session.failing = true;
    this.#parts.log.warn(
      { err: error, deviceId: session.deviceId },
      'device message outcome unknown; session will end',
    );
    setTimeout(() => session.end('failed'), Math.random() * this.#parts.limits.closeJitterMs).unref();
  }
}

function heartbeatTelemetry({ rssi, uptime_s, free_heap, battery }: HeartbeatPayload) {
  const telemetry = {
    ...(rssi !== undefined && { rssi }),
    ...(uptime_s !== undefined && { uptimeS: uptime_s }),
    ...(free_heap !== undefined && { freeHeap: free_heap }),
  };
  return { telemetry, ...(battery !== undefined && { battery }) };
}

/** A message with a valid form, signed or over a channel that a certificate authenticates. */
type ReadableMessage = Pick<CheckedMessage<DevicePayload>, 'ok' | 'content' | 'canonical'> & {
  fields: { message_id: string; sequence_number: number | null; timestamp?: EpochMs };
};

/** Users of the tenant receive every message on the topic of its device. */
function withFullTopic(packet: PublishPacket, session: DeviceSession, channel: DeviceChannel): PublishPacket {
  if (session.certificate === null) return packet;
  return { ...packet, topic: deviceTopic(session.tenantId, session.deviceId, channel) };
}

/** `applied` is set if only that part of the report became the device's state. */
interface AcceptedMessage {
  repeat: boolean;
  applied?: JsonObject;
}

/** The state that an event reports. */
function reportedStateOf(event: DeviceEvent | null): StateReport | null {
  if (event?.type === 'state.reported') return event;
  if (event?.type === 'ack.reported' && event.state !== undefined) return { state: event.state, full: false };
  return null;
}

/**
 * Whether the store rejected this event because of its data, after isolating it from its batch: a retry would fail too.
 */
function isRefusedData(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error && error.cause.name === 'DataRefused';
}
