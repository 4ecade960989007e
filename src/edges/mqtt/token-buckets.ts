/** Monotonic milliseconds: rates follow real time, not the service's clock. */
export type Ticks = () => number;

interface Rate {
  perMs: number;
  burst: number;
  ticks: Ticks;
}

/** The rate limit of one key. */
export interface RateLimit {
  /** Takes a token and returns 0, or returns the milliseconds until one is available. */
  take(): number;
  /** Takes a token even if none is available; returns the milliseconds until it would have been. */
  reserve(): number;
}

/** Token bucket of one key, full at first. */
class Bucket implements RateLimit {
  /** Removed while it was full: the key has a newer bucket, or gets one. */
  discarded = false;
  readonly #rate: Rate;
  #tokens: number;
  #refilledAt: number;

  constructor(rate: Rate) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#refilledAt = rate.ticks();
  }

  take(): number {
    this.#refill();
    if (this.#tokens < 1) return Math.ceil((1 - this.#tokens) / this.#rate.perMs);
    this.#tokens -= 1;
    return 0;
  }

  reserve(): number {
    this.#refill();
    this.#tokens = Math.max(this.#tokens - 1, -this.#rate.burst);
    return this.#tokens >= 0 ? 0 : Math.ceil(-this.#tokens / this.#rate.perMs);
  }

  isFull(): boolean {
    this.#refill();
    return this.#tokens >= this.#rate.burst;
  }

  #refill(): void {
    const now = this.#rate.ticks();
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + (now - this.#refilledAt) * this.#rate.perMs);
    this.#refilledAt = now;
  }
}

/** Token buckets by key. A bucket that is full again is removed: a new one would be identical. */
export class TokenBuckets {
  readonly #rate: Rate;
  readonly #buckets = new Map<string, Bucket>();
  #sweepAt: number;

  constructor(perSecond: number, burst: number, ticks: Ticks = () => performance.now()) {
    this.#rate = { perMs: perSecond / 1000, burst, ticks };
    this.#sweepAt = ticks();
  }

  /** The limit of a key. The caller may keep it: all limits of one key share the same tokens. */
  limitFor(key: string): RateLimit {
    this.#sweep();
    let bucket = this.#bucketFor(key);
    const current = (): Bucket => {
      if (bucket.discarded) bucket = this.#bucketFor(key);
      return bucket;
    };
    return { take: () => current().take(), reserve: () => current().reserve() };
  }

  get size(): number {
    return this.#buckets.size;
  }

  #bucketFor(key: string): Bucket {
    const existing = this.#buckets.get(key);
    if (existing !== undefined) return existing;
    const bucket = new Bucket(this.#rate);
    this.#buckets.set(key, bucket);
    return bucket;
  }

  #sweep(): void {
    const { burst, perMs, ticks } = this.#rate;
    const now = ticks();
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + Math.max(burst / perMs, 1_000);
    for (const [key, bucket] of this.#buckets) {
      if (!bucket.isFull()) continue;
      bucket.discarded = true;
      this.#buckets.delete(key);
    }
  }
}
