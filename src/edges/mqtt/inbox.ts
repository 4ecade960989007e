import { Overloaded, type Reply, type ReplyHandler } from '../../actors/contract.ts';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import type { DeviceChannel } from '../../protocol/topics.ts';
import type { PublishPacket } from './packets.ts';
import type { PendingPuback } from './puback-queue.ts';

/** A verified message on its way to the device's actor. Receives the actor's reply itself. */
export class ReceivedMessage implements ReplyHandler {
  /** Position in the order of arrival. */
  readonly index: number;
  readonly ack: PendingPuback | null;
  /** MQTT remaining length of its packet. */
  readonly length: number;
  readonly event: DeviceEvent;
  /** Runs once, before the message can be sent. */
  lookup: (() => Promise<void>) | null;
  /** Kept for the users of the tenant; null if none is connected. */
  readonly packet: PublishPacket | null;
  readonly messageId: string;
  readonly channel: DeviceChannel;
  readonly sequence: number;
  readonly battery: number | undefined;
  readonly #inbox: Inbox;

  constructor(inbox: Inbox, fields: Omit<ReceivedMessage, keyof ReplyHandler>) {
    this.#inbox = inbox;
    this.index = fields.index;
    this.ack = fields.ack;
    this.length = fields.length;
    this.event = fields.event;
    this.lookup = fields.lookup;
    this.packet = fields.packet;
    this.messageId = fields.messageId;
    this.channel = fields.channel;
    this.sequence = fields.sequence;
    this.battery = fields.battery;
  }

  resolve(reply: Reply): void {
    this.#inbox.onCommitted(this, reply);
  }

  reject(reason: Error): void {
    this.#inbox.onFailed(this, reason);
  }
}

export interface InboxCallbacks {
  send(message: ReceivedMessage): void;
  onCommitted(message: ReceivedMessage, reply: Reply): void;
  onFailed(message: ReceivedMessage, error: unknown): void;
  pauseReading(): void;
  resumeReading(): void;
}

const RETRY: BackoffLimits = { firstMs: 25, maxMs: 1_000 };

/**
 * Ordered queue between one session and its device actor. Messages are sent in order of arrival without waiting for
 * replies, so that one group commit can take many. A message that has to wait (for a lookup, or because the runtime is
 * overloaded) blocks those behind it.
 */
export class Inbox {
  readonly #callbacks: InboxCallbacks;
  #waiting: ReceivedMessage[] = [];
  #blocked = false;
  #closed = false;
  #lookupPending = false;
  #peerClosed = false;
  #rejections = 0;
  #retryTimer: NodeJS.Timeout | null = null;

  constructor(callbacks: InboxCallbacks) {
    this.#callbacks = callbacks;
  }

  enqueue(message: ReceivedMessage): void {
    if (this.#closed) return;
    if (this.#blocked) this.#waiting.push(message);
    else this.#begin(message);
  }

  /** Discards waiting messages and sends nothing more. */
  close(): void {
    this.#closed = true;
    this.#waiting = [];
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
  }

  /**
   * The connection has closed. Messages that wait for a lookup are still sent. Messages that the overloaded runtime
   * rejected are dropped, not retried: they would outlive the session, and cannot be acknowledged.
   */
  onPeerClosed(): void {
    this.#peerClosed = true;
    if (this.#retryTimer !== null) this.close();
  }

  #begin(message: ReceivedMessage): void {
    const { lookup } = message;
    if (lookup === null) {
      this.#callbacks.send(message);
      return;
    }
    message.lookup = null;
    this.#blocked = true;
    this.#lookupPending = true;
    lookup().then(
      () => {
        this.#lookupPending = false;
        this.#putBack(message);
        this.#unblock();
      },
      (error: unknown) => {
        if (!this.#closed) this.#callbacks.onFailed(message, error);
      },
    );
  }

  onCommitted(message: ReceivedMessage, reply: Reply): void {
    if (this.#retryTimer === null) this.#rejections = 0;
    this.#callbacks.onCommitted(message, reply);
  }

  onFailed(message: ReceivedMessage, error: unknown): void {
    if (error instanceof Overloaded) this.#retryLater(message);
    else if (!this.#closed) this.#callbacks.onFailed(message, error);
  }

  /** The runtime rejected the message: retries it with back-off and blocks those behind it. */
  #retryLater(message: ReceivedMessage): void {
    if (this.#closed) return;
    if (this.#peerClosed) {
      this.close();
      return;
    }
    this.#putBack(message);
    this.#blocked = true;
    this.#callbacks.pauseReading();
    if (this.#retryTimer !== null) return;
    this.#rejections += 1;
    this.#retryTimer = setTimeout(
      () => {
        this.#retryTimer = null;
        this.#unblock();
      },
      backoffDelay(this.#rejections, RETRY, 'half'),
    );
  }

  #putBack(message: ReceivedMessage): void {
    const behind = this.#waiting.findIndex(({ index }) => index > message.index);
    this.#waiting.splice(behind < 0 ? this.#waiting.length : behind, 0, message);
  }

  #unblock(): void {
    if (this.#closed || this.#lookupPending || this.#retryTimer !== null) return;
    this.#blocked = false;
    while (!this.#blocked) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      this.#begin(next);
    }
    if (!this.#blocked) this.#callbacks.resumeReading();
  }
}
