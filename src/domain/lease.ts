/** Monotonic milliseconds from an arbitrary origin: `performance.now()`. */
export type MonotonicClock = () => number;

/** How long the active process may act before it must renew its lease. */
export const LEASE_MS = 10_000;

/** The time-limited right to act as the active process. Checked before each commit, response and write to a device. */
export interface Lease {
  /** Fencing token: increases with each owner; 0 if no other process can take over. */
  readonly epoch: number;
  /** True until the lease's duration (`LEASE_MS`, monotonic) has passed since the last confirmed renewal was sent. */
  valid(): boolean;
}

/** A lease that never expires, for tests and for tools that run without another process. */
export const unlimitedLease: Lease = { epoch: 0, valid: () => true };

/**
 * A lease that expires unless renewed. Its duration counts from when a renewal was sent, because the process may have
 * been suspended before it read the answer.
 */
export class RenewedLease implements Lease {
  epoch = 0;
  readonly #durationMs: number;
  readonly #now: MonotonicClock;
  readonly #expired: () => void;
  #until = Number.NEGATIVE_INFINITY;
  #running = false;

  /** `expired` is called once, in a microtask, when `valid` finds that a running lease has expired. */
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

  /** Confirms the renewal sent at `sentAt`. An expired lease stays expired. */
  renewed(sentAt: number): void {
    if (this.#running) this.#until = Math.max(this.#until, sentAt + this.#durationMs);
  }

  /** Starts the lease with the confirmed request sent at `sentAt`. */
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
