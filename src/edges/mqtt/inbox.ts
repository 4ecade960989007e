import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { FlowControl } from './flow-control.ts';

/** A message as the inbox queues it. */
export interface QueuedMessage {
  /** Position in the order of arrival. */
  readonly index: number;
  /** Runs once, before the message can be sent. */
  lookup: (() => Promise<void>) | null;
  send(): void;
  /** Called if the lookup fails. */
  reject(reason: unknown): void;
}

const RETRY: BackoffLimits = { firstMs: 25, maxMs: 1_000 };

/**
 * Inbox: ordered queue between one session and its device actor. Messages are sent in order of arrival without waiting for
 * replies, so that one group commit can take many. A message that has to wait (for a lookup, or because the runtime is
 * overloaded) blocks those behind it.
 */
export class Inbox {
  readonly #flow: FlowControl;
  #waiting: QueuedMessage[] = [];
  #blocked = false;
  #closed = false;
  #lookupPending = false;
  #peerClosed = false;
  #rejections = 0;
  #retryTimer: NodeJS.Timeout | null = null;

  constructor(flow: FlowControl) {
    this.#flow = flow;
  }

  enqueue(received: QueuedMessage): void {
    if (this.#closed) return;
    if (this.#blocked) this.#waiting.push(received);
    else this.#begin(received);
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

  #begin(received: QueuedMessage): void {
    const { lookup } = received;
    if (lookup === null) {
      received.send();
      return;
    }
    received.lookup = null;
    this.#blocked = true;
    this.#lookupPending = true;
    lookup().then(
      () => {
        this.#lookupPending = false;
        this.#putBack(received);
        this.#unblock();
      },
      (error: unknown) => {
        this.#lookupPending = false;
        received.lookup = lookup;
        received.reject(error);
      },
    );
  }

  /** A message was committed: the runtime is not overloaded. */
  resetBackoff(): void {
    if (this.#retryTimer === null) this.#rejections = 0;
  }

  /** The overloaded runtime rejected the message: retries it with back-off and blocks those behind it. */
  retryLater(received: QueuedMessage): void {
    if (this.#closed) return;
    if (this.#peerClosed) {
      this.close();
      return;
    }
    this.#putBack(received);
    this.#blocked = true;
    this.#flow.pause('overloaded');
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

  #putBack(received: QueuedMessage): void {
    const behind = this.#waiting.findIndex(({ index }) => index > received.index);
    this.#waiting.splice(behind < 0 ? this.#waiting.length : behind, 0, received);
  }

  #unblock(): void {
    if (this.#closed || this.#lookupPending || this.#retryTimer !== null) return;
    this.#blocked = false;
    while (!this.#blocked) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      this.#begin(next);
    }
    if (!this.#blocked) this.#flow.resume('overloaded');
  }
}
