import { NoSuchActor, Quarantined, type Reply } from '../../actors/contract.ts';
import { referenceOf } from '../../domain/clock.ts';
import type { Log } from '../../domain/log.ts';
import type { MessageRefusalCode } from '../../domain/refusals.ts';
import type { EpochMs, JsonObject, Uuid } from '../../domain/values.ts';
import type { CommandContext } from '../../machines/command-types.ts';
import type { DeviceEvent, MessageHeader, VerificationWatch } from '../../machines/device-types.ts';
import type { Services } from '../../operations/operation.ts';
import type { MessageIdentity } from '../../protocol/canonical.ts';
import { HEARTBEAT_S } from '../../protocol/constants.ts';
import { type CheckedMessage, checkMessage } from '../../protocol/envelope.ts';
import { type DevicePayload, stateSpan } from '../../protocol/payloads.ts';
import type { DeviceChannel } from '../../protocol/topics.ts';
import type { StateReport } from '../../services/property-times.ts';
import type { CommandWriter } from './command-writer.ts';
import type { DeviceSession } from './device-session.ts';
import { isUuid } from './device-sign-in.ts';
import { Inbox, type PendingMessage } from './inbox.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { MqttMeter } from './mqtt-meter.ts';
import type { PublishPacket } from './packets.ts';
import type { UserSessions } from './user-session.ts';

/** What a message was, kept until it is committed. */
interface ReceivedMessage extends PendingMessage {
  /** Kept for the users of the tenant; null where none listens. */
  packet: PublishPacket | null;
  messageId: string;
  channel: DeviceChannel;
  sequence: number;
  battery: number | undefined;
}

export interface MessageReceiverParts {
  services: Pick<Services, 'actors' | 'sessions' | 'deviceActivity' | 'clock' | 'settings'>;
  /** The commands of a device that wait to see their expected state. */
  watches(deviceId: Uuid): readonly VerificationWatch[];
  commandWriter: CommandWriter;
  userSessions: UserSessions;
  limits: MqttLimits;
  meter: MqttMeter;
  log: Log;
}

/**
 * What devices publish: envelope and signature are checked here, in the contract's order; sequence, state and meaning
 * are the device actor's. A message is settled (and acknowledged, in QoS 1) when what it caused is durable.
 */
export class MessageReceiver {
  readonly #parts: MessageReceiverParts;
  #count = 0;

  constructor(parts: MessageReceiverParts) {
    this.#parts = parts;
  }

  receive(session: DeviceSession, packet: PublishPacket): void {
    const { clock, sessions } = this.#parts.services;
    const channel = session.channelOf(packet.topic);
    const now = clock.now();
    // What no session may do is not answered.
    if (channel === null || packet.retain || packet.qos > 1) session.end('forbidden');
    else if (session.expiresAt <= now) session.end('expired');
    if (channel === null || session.ended) return;
    session.flow.startMessage(packet.length);
    const ack = packet.packetId === null ? null : session.acks.expect(packet.packetId);
    const arrived = { ack, length: packet.length };
    const checked = this.#check(packet.payload, session, channel, now);
    if (!checked.ok) {
      const { code, messageId, signatureValid } = checked.refusal;
      this.#refuse(session, code, { channel, sequence: null, messageId: signatureValid ? (messageId ?? '') : null });
      session.completeMessage(arrived);
      return;
    }
    this.#parts.meter.received(channel);
    const { message } = checked;
    const { body, fields } = message;
    if (channel === 'hello' && !body.ok) {
      // Outside the replay window there is no number to use up.
      sessions.recordActivity(session.deviceId, { at: now });
      const { sequence_number: sequence, message_id: messageId } = fields;
      this.#refuse(session, 'PAYLOAD_INVALID', { channel, sequence, messageId });
      session.completeMessage(arrived);
      return;
    }
    const event = this.#eventOf(session, message, now);
    this.#inboxOf(session).enqueue({
      index: this.#count++,
      ack,
      length: packet.length,
      event,
      lookup: event.type === 'ack.reported' ? this.#lookup(session, event) : null,
      packet: this.#parts.userSessions.hasTenant(session.tenantId) ? packet : null,
      messageId: fields.message_id,
      channel,
      sequence: fields.sequence_number,
      battery: body.ok && body.value.channel === 'heartbeat' ? body.value.payload.battery : undefined,
    } satisfies ReceivedMessage as PendingMessage);
  }

  /** While the service's time is being corrected, a timestamp may be right by either clock. */
  #check(
    payload: Buffer,
    session: DeviceSession,
    channel: DeviceChannel,
    now: EpochMs,
  ): ReturnType<typeof checkMessage> {
    const checked = checkMessage(payload, session, channel, now);
    if (checked.ok || checked.refusal.code !== 'TIMESTAMP_SKEWED') return checked;
    return checkMessage(payload, session, channel, referenceOf(this.#parts.services.clock));
  }

  #eventOf(session: DeviceSession, message: CheckedMessage<DevicePayload, MessageIdentity>, at: EpochMs): DeviceEvent {
    const { by, deviceId, keyVersion } = session;
    const { fields, body, canonical } = message;
    const mark: MessageHeader = { sequenceNumber: fields.sequence_number, messageId: fields.message_id, keyVersion };
    if (!body.ok) return { type: 'message.rejected', at, by, mark, code: 'PAYLOAD_INVALID' };
    switch (body.value.channel) {
      case 'heartbeat':
        return { type: 'heartbeat.received', at, by, mark };
      case 'hello': {
        const { firmware } = body.value.payload;
        return {
          type: 'hello.received',
          at,
          by,
          mark: { keyVersion },
          ...(firmware === undefined ? {} : { firmware }),
        };
      }
      case 'state': {
        const { state, full } = body.value.payload;
        return {
          type: 'state.reported',
          at,
          by,
          mark,
          state,
          full: full ?? false,
          written: canonical && stateSpan(body.value.payload, canonical),
          watches: this.#parts.watches(deviceId),
        };
      }
      case 'cmd_ack': {
        const { command_id: commandId, state, status, progress, result, error } = body.value.payload;
        return {
          type: 'ack.reported',
          at,
          by,
          mark,
          commandId,
          known: false,
          ack: {
            status,
            ...(progress === undefined ? {} : { progress }),
            ...(result === undefined ? {} : { result }),
            ...(error === undefined ? {} : { error }),
          },
          ...(state === undefined ? {} : { state }),
          watches: this.#parts.watches(deviceId),
        };
      }
    }
  }

  /** Whether the command is this device's: known at once where it is live, else to be read first. */
  #lookup(session: DeviceSession, event: DeviceEvent & { type: 'ack.reported' }): (() => Promise<void>) | null {
    if (!isUuid(event.commandId)) return null;
    const { actors } = this.#parts.services;
    const ref = { kind: 'command', id: event.commandId } as const;
    const live = actors.peek<CommandContext>(ref);
    if (live !== undefined) {
      event.known = live.snapshot.context.deviceId === session.deviceId;
      return null;
    }
    return async () => {
      const command = await actors.read<CommandContext>(ref);
      event.known = command?.snapshot.context.deviceId === session.deviceId;
    };
  }

  #inboxOf(session: DeviceSession): Inbox {
    if (session.inbox !== null) return session.inbox;
    const device = { kind: 'device', id: session.deviceId } as const;
    session.inbox = new Inbox({
      send: ({ event }, waiter) => this.#parts.services.actors.post(device, event, waiter),
      onCommitted: (arrival, reply) => this.#committed(session, arrival as ReceivedMessage, reply),
      onFailed: (arrival, error) => this.#failed(session, arrival as ReceivedMessage, error),
      pauseReading: () => session.flow.pause(),
      resumeReading: () => session.flow.resume(),
    });
    return session.inbox;
  }

  #committed(session: DeviceSession, arrival: ReceivedMessage, reply: Reply): void {
    try {
      this.#answer(session, arrival, reply);
    } catch (error) {
      this.#parts.log.error({ err: error, deviceId: session.deviceId }, 'a committed message could not be answered');
      session.end('failed');
    }
  }

  #answer(session: DeviceSession, arrival: ReceivedMessage, reply: Reply): void {
    // The device does not take it: it was revoked, or the key that verified the message has ended.
    if (!reply.understood) {
      session.end('ended');
      return;
    }
    const { sessions } = this.#parts.services;
    const { event, battery } = arrival;
    sessions.recordActivity(session.deviceId, battery === undefined ? { at: event.at } : { at: event.at, battery });
    for (const output of reply.outputs) {
      if (output.type === 'message.refused') this.#refuse(session, output.code, arrival);
      else if (output.type === 'message.accepted') this.#accept(session, arrival, output);
      else if (output.type === 'hello.accepted') this.#greet(session, arrival, output);
    }
    if (event.type !== 'ack.reported') session.completeMessage(arrival);
    else {
      reply.messagesDelivered.then(
        () => session.completeMessage(arrival),
        (error: unknown) => {
          // A command that is held back takes its word when it is released: the device has no part in that.
          if (error instanceof Quarantined) session.completeMessage(arrival);
          else this.#failed(session, arrival, error);
        },
      );
    }
  }

  #accept(session: DeviceSession, arrival: ReceivedMessage, { repeat, applied }: AcceptedMessage): void {
    const { event, channel, sequence } = arrival;
    const reported = applied ? { state: applied, full: false } : repeat ? null : reportedStateOf(event);
    const { deviceActivity } = this.#parts.services;
    deviceActivity.record(session, { at: event.at, channel, sequence, refusal: null, duplicate: repeat }, reported);
    if (!repeat) this.#tell(session, arrival);
  }

  #greet(session: DeviceSession, arrival: ReceivedMessage, hello: { lastSequence: number; keyVersion: number }): void {
    const { clock, settings } = this.#parts.services;
    this.#accept(session, arrival, { repeat: false });
    this.#parts.commandWriter.send(session, arrival.messageId, {
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

  #tell(session: DeviceSession, { packet }: ReceivedMessage): void {
    if (packet === null) return;
    this.#parts.userSessions.publish(session.tenantId, packet.topic, packet.payload, packet.qos);
  }

  #refuse(session: DeviceSession, code: MessageRefusalCode, { channel, sequence, messageId }: RefusedMessage): void {
    const { services, meter, commandWriter, limits } = this.#parts;
    const { sessions, deviceActivity, clock } = services;
    meter.refused(code);
    sessions.recordRefusal(session.deviceId);
    deviceActivity.record(session, { at: clock.now(), channel, sequence, refusal: code, duplicate: false });
    if (messageId !== null) {
      commandWriter.send(session, messageId, { type: 'error', payload: { code, message_id: messageId } });
    }
    if (session.countRefusal(clock.now()) < limits.refusalsPerMinute) return;
    // Its own acknowledgement is settled in this turn of the loop, and leaves before the end.
    queueMicrotask(() => session.end('refusals'));
  }

  #failed(session: DeviceSession, arrival: ReceivedMessage, error: unknown): void {
    if (session.ended) return;
    if (error instanceof NoSuchActor) session.end('ended');
    else if (isRefusedData(error)) {
      this.#refuse(session, 'PAYLOAD_INVALID', arrival);
      session.completeMessage(arrival);
    } else this.#lose(session, error);
  }

  /**
   * Nothing is known of what became of it, so it is not acknowledged, and neither is what came after it: the session
   * ends and the device sends them again. Not all sessions at once, and reading nothing until then.
   */
  #lose(session: DeviceSession, error: unknown): void {
    session.inbox?.close();
    session.flow.pause();
    if (session.failing) return;
    session.failing = true;
    this.#parts.log.warn({ err: error, deviceId: session.deviceId }, 'a message was not kept: its session will end');
    setTimeout(() => session.end('failed'), Math.random() * this.#parts.limits.closeJitterMs).unref();
  }
}

interface RefusedMessage {
  channel: DeviceChannel;
  sequence: number | null;
  /** Null where the sender did not prove to be the device: then it is not told. */
  messageId: string | null;
}

/** `applied` where only that part of the report became the device's state. */
interface AcceptedMessage {
  repeat: boolean;
  applied?: JsonObject;
}

/** The state that an event brought. */
function reportedStateOf(event: DeviceEvent): StateReport | null {
  if (event.type === 'state.reported') return event;
  if (event.type === 'ack.reported' && event.state !== undefined) return { state: event.state, full: false };
  return null;
}

/** The store took everything else of its turn and refused this one for its data: it would do so again. */
function isRefusedData(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error && error.cause.name === 'DataRefused';
}
