import type { Milliseconds } from './values.ts';

/** Monotonic milliseconds: rates follow real time, not the service's clock. */
export type Ticks = () => Milliseconds;

export interface TokenRate {
  perMs: number;
  /** Tokens of a full bucket. */
  burst: number;
  /** Tokens that `reserve` may take beyond those available. */
  maxDebt: number;
  ticks: Ticks;
}

/** Token bucket, full at first: it fills at a constant rate, up to its burst. */
export class TokenBucket {
  readonly #rate: TokenRate;
  /** Negative while in debt. */
  #tokens: number;
  #refilledAt: Milliseconds;

  constructor(rate: TokenRate) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#refilledAt = rate.ticks();
  }

  /** Takes a token and returns 0, or returns the milliseconds until one is available. */
  take(): Milliseconds {
    this.#refill();
    if (this.#tokens < 1) return this.#msUntil(1);
    this.#tokens -= 1;
    return 0;
  }

  /** Takes `cost` tokens even if they are not available; returns the milliseconds until they would have been. */
  reserve(cost = 1): Milliseconds {
    this.#refill();
    this.#tokens = Math.max(this.#tokens - cost, -this.#rate.maxDebt);
    return this.#tokens >= 0 ? 0 : this.#msUntil(0);
  }

  /** Milliseconds until a token is available. */
  get waitMs(): Milliseconds {
    this.#refill();
    return this.#tokens >= 1 ? 0 : this.#msUntil(1);
  }

  get isFull(): boolean {
    this.#refill();
    return this.#tokens >= this.#rate.burst;
  }

  #msUntil(tokens: number): Milliseconds {
    return Math.ceil((tokens - this.#tokens) / this.#rate.perMs);
  }

  #refill(): void {
    const now = this.#rate.ticks();
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + (now - this.#refilledAt) * this.#rate.perMs);
    this.#refilledAt = now;
  }
}
