/** Monotonic milliseconds: rates are about real time, not about the service's clock. */
export type Ticks = () => number;

interface Rate {
  perMs: number;
  burst: number;
  ticks: Ticks;
}

/** What limits one payer. */
export interface RateLimit {
  /** Takes a token and answers 0, or answers in how many milliseconds there will be one. */
  take(): number;
  /** Takes a token though there may be none, and answers how long one who waits its turn would wait, in milliseconds. */
  reserve(): number;
}

/** One payer's tokens, full at first. */
class Bucket implements RateLimit {
  /** Removed while it was full: its payer has another bucket by now, or gets one. */
  forgotten = false;
  readonly #rate: Rate;
  #tokens: number;
  #at: number;

  constructor(rate: Rate) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#at = rate.ticks();
  }

  take(): number {
    this.#fill();
    if (this.#tokens < 1) return Math.ceil((1 - this.#tokens) / this.#rate.perMs);
    this.#tokens -= 1;
    return 0;
  }

  reserve(): number {
    this.#fill();
    this.#tokens = Math.max(this.#tokens - 1, -this.#rate.burst);
    return this.#tokens >= 0 ? 0 : Math.ceil(-this.#tokens / this.#rate.perMs);
  }

  isFull(): boolean {
    this.#fill();
    return this.#tokens >= this.#rate.burst;
  }

  #fill(): void {
    const now = this.#rate.ticks();
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + (now - this.#at) * this.#rate.perMs);
    this.#at = now;
  }
}

/** Buckets by payer. One that is full again is forgotten, for a new one would be the same. */
export class TokenBuckets {
  readonly #rate: Rate;
  readonly #buckets = new Map<string, Bucket>();
  #sweepAt: number;

  constructor(perSecond: number, burst: number, ticks: Ticks = () => performance.now()) {
    this.#rate = { perMs: perSecond / 1000, burst, ticks };
    this.#sweepAt = ticks();
  }

  /** The limit of a payer, which the caller may keep: all limits of one payer draw on the same tokens. */
  limitFor(payer: string): RateLimit {
    this.#sweep();
    let bucket = this.#bucketOf(payer);
    const current = (): Bucket => {
      if (bucket.forgotten) bucket = this.#bucketOf(payer);
      return bucket;
    };
    return { take: () => current().take(), reserve: () => current().reserve() };
  }

  get size(): number {
    return this.#buckets.size;
  }

  #bucketOf(payer: string): Bucket {
    const known = this.#buckets.get(payer);
    if (known !== undefined) return known;
    const fresh = new Bucket(this.#rate);
    this.#buckets.set(payer, fresh);
    return fresh;
  }

  #sweep(): void {
    const { burst, perMs, ticks } = this.#rate;
    const now = ticks();
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + Math.max(burst / perMs, 1_000);
    for (const [payer, bucket] of this.#buckets) {
      if (!bucket.isFull()) continue;
      bucket.forgotten = true;
      this.#buckets.delete(payer);
    }
  }
}
