import type { Reply, ReplyHandler } from '../../actors/contract.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import type { DeviceChannel } from '../../protocol/topics.ts';
import type { DeviceSession } from './device-session.ts';
import type { QueuedMessage } from './inbox.ts';
import type { PublishPacket } from './packets.ts';
import type { PendingPuback } from './puback-queue.ts';

/** Sends received messages to their actor and handles the outcome; implemented by `MessageReceiver`. */
export interface ReceivedMessageHandler {
  send(received: ReceivedMessage): void;
  onCommitted(received: ReceivedMessage, reply: Reply): void;
  onFailed(received: ReceivedMessage, error: unknown): void;
}

/** A message of a device, from its PUBLISH to its PUBACK. It is the reply handler of its event. */
export class ReceivedMessage implements QueuedMessage, ReplyHandler {
  readonly session: DeviceSession;
  readonly channel: DeviceChannel;
  readonly at: EpochMs;
  readonly index: number;
  /** Its place in the order of PUBACKs; null for QoS 0. */
  readonly ack: PendingPuback | null;
  /** MQTT remaining length of its packet. */
  readonly length: number;
  /** Null unless the signature is valid: no error is sent then. */
  messageId: string | null = null;
  /** Null if the message is refused before its sequence number is known. */
  sequence: number | null = null;
  /** Null unless the envelope is valid. */
  event: DeviceEvent | null = null;
  lookup: (() => Promise<void>) | null = null;
  /** Kept for the users of the tenant; null if none is connected. */
  packet: PublishPacket | null = null;
  readonly #handler: ReceivedMessageHandler;

  constructor(
    handler: ReceivedMessageHandler,
    fields: Pick<ReceivedMessage, 'session' | 'channel' | 'at' | 'index' | 'ack' | 'length'>,
  ) {
    this.#handler = handler;
    this.session = fields.session;
    this.channel = fields.channel;
    this.at = fields.at;
    this.index = fields.index;
    this.ack = fields.ack;
    this.length = fields.length;
  }

  send(): void {
    this.#handler.send(this);
  }

  resolve(reply: Reply): void {
    this.#handler.onCommitted(this, reply);
  }

  reject(reason: unknown): void {
    this.#handler.onFailed(this, reason);
  }
}
