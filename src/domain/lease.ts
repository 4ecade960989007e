/** Milliseconds of a clock that is never set, from an arbitrary start: `performance.now()`. */
export type MonotonicClock = () => number;

/** How long the active process may act before it has to renew its right. */
export const LEASE_MS = 10_000;

/** The right to act as the active process, for a limited time. Asked before each commit, answer and write to a device. */
export interface Lease {
  /** Fencing token: grows with each owner; 0 where no other process can take over. */
  readonly epoch: number;
  /** Less than the lease's duration (`LEASE_MS`) of monotonic time since the last confirmed renewal was sent. */
  valid(): boolean;
}

/** For tests and tools that work beside no other process. */
export const unlimitedLease: Lease = { epoch: 0, valid: () => true };

/**
 * A lease that ends by itself. It counts from when a renewal was sent: the answer may have been waiting for a process
 * that was stopped.
 */
export class RenewedLease implements Lease {
  epoch = 0;
  readonly #durationMs: number;
  readonly #now: MonotonicClock;
  readonly #expired: () => void;
  #until = Number.NEGATIVE_INFINITY;
  #running = false;

  /** `expired` is called once, when `valid` finds that a lease that was renewed is over; on the next tick. */
  constructor(durationMs: number, now: MonotonicClock, expired: () => void) {
    this.#durationMs = durationMs;
    this.#now = now;
    this.#expired = expired;
  }

  valid(): boolean {
    if (this.#now() < this.#until) return true;
    if (this.#running) {
      this.end();
      queueMicrotask(this.#expired);
    }
    return false;
  }

  /** The renewal that was sent at `sentAt` is confirmed. A lease that is over stays over. */
  renewed(sentAt: number): void {
    if (this.#running) this.#until = Math.max(this.#until, sentAt + this.#durationMs);
  }

  /** Begins with the confirmed request that was sent at `sentAt`. */
  begin(epoch: number, sentAt: number): void {
    this.epoch = epoch;
    this.#running = true;
    this.#until = sentAt + this.#durationMs;
  }

  end(): void {
    this.#running = false;
    this.#until = Number.NEGATIVE_INFINITY;
  }
}
