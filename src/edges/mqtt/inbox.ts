import { Overloaded, type Reply, type ReplyHandler } from '../../actors/contract.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import type { PendingPuback } from './puback-queue.ts';

/** A verified message on its way to the device's actor. */
export interface PendingMessage {
  /** Counts the arrivals of one session. */
  index: number;
  ack: PendingPuback | null;
  /** Remaining length of its packet. */
  length: number;
  event: DeviceEvent;
  /** What must be found out before it can be sent, once. */
  lookup: (() => Promise<void>) | null;
}

export interface InboxCallbacks {
  send(arrival: PendingMessage, waiter: ReplyHandler): void;
  onCommitted(arrival: PendingMessage, reply: Reply): void;
  onFailed(arrival: PendingMessage, error: unknown): void;
  /** Nothing more is to be read for now, and then again. */
  pauseReading(): void;
  resumeReading(): void;
}

const FIRST_RETRY_MS = 25;
const LAST_RETRY_MS = 1_000;

/**
 * Sends one session's messages to their actor: side by side, so that a turn can take many, and yet in the order they
 * came. One that must wait (for a lookup, or because the runtime is overloaded) holds up those behind it.
 */
export class Inbox {
  readonly #ends: InboxCallbacks;
  #waiting: PendingMessage[] = [];
  #blocked = false;
  #closed = false;
  #looking = false;
  #peerLeft = false;
  #retryMs = FIRST_RETRY_MS;
  #retryTimer: NodeJS.Timeout | null = null;

  constructor(ends: InboxCallbacks) {
    this.#ends = ends;
  }

  enqueue(arrival: PendingMessage): void {
    if (this.#closed) return;
    if (this.#blocked) this.#waiting.push(arrival);
    else this.#begin(arrival);
  }

  /** Sends nothing more. */
  close(): void {
    this.#closed = true;
    this.#waiting = [];
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
  }

  /**
   * The connection is gone. What waits for a lookup is still sent; what the runtime has no room for is dropped and not
   * retried: it would outlive the session, and nothing can acknowledge it.
   */
  onPeerClosed(): void {
    this.#peerLeft = true;
    if (this.#retryTimer !== null) this.close();
  }

  #begin(arrival: PendingMessage): void {
    const { lookup } = arrival;
    if (lookup === null) {
      this.#send(arrival);
      return;
    }
    arrival.lookup = null;
    this.#blocked = true;
    this.#looking = true;
    lookup().then(
      () => {
        this.#looking = false;
        this.#putBack(arrival);
        this.#unblock();
      },
      (error: unknown) => {
        if (!this.#closed) this.#ends.onFailed(arrival, error);
      },
    );
  }

  #send(arrival: PendingMessage): void {
    this.#ends.send(arrival, new Sent(this, arrival));
  }

  onCommitted(arrival: PendingMessage, reply: Reply): void {
    if (this.#retryTimer === null) this.#retryMs = FIRST_RETRY_MS;
    this.#ends.onCommitted(arrival, reply);
  }

  onFailed(arrival: PendingMessage, error: unknown): void {
    if (error instanceof Overloaded) this.#retryLater(arrival);
    else if (!this.#closed) this.#ends.onFailed(arrival, error);
  }

  /** It was not taken, and neither is what comes behind it until it is. */
  #retryLater(arrival: PendingMessage): void {
    if (this.#closed) return;
    if (this.#peerLeft) {
      this.close();
      return;
    }
    this.#putBack(arrival);
    this.#blocked = true;
    this.#ends.pauseReading();
    if (this.#retryTimer !== null) return;
    const wait = this.#retryMs * (0.5 + Math.random() / 2);
    this.#retryMs = Math.min(LAST_RETRY_MS, this.#retryMs * 2);
    this.#retryTimer = setTimeout(() => {
      this.#retryTimer = null;
      this.#unblock();
    }, wait);
  }

  #putBack(arrival: PendingMessage): void {
    const behind = this.#waiting.findIndex(({ index }) => index > arrival.index);
    this.#waiting.splice(behind < 0 ? this.#waiting.length : behind, 0, arrival);
  }

  #unblock(): void {
    if (this.#closed || this.#looking || this.#retryTimer !== null) return;
    this.#blocked = false;
    while (!this.#blocked) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      this.#begin(next);
    }
    if (!this.#blocked) this.#ends.resumeReading();
  }
}

/** A message that its actor has to answer. */
class Sent implements ReplyHandler {
  readonly #inbox: Inbox;
  readonly #arrival: PendingMessage;

  constructor(inbox: Inbox, arrival: PendingMessage) {
    this.#inbox = inbox;
    this.#arrival = arrival;
  }

  resolve(reply: Reply): void {
    this.#inbox.onCommitted(this.#arrival, reply);
  }

  reject(reason: Error): void {
    this.#inbox.onFailed(this.#arrival, reason);
  }
}
