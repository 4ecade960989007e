/** Monotonic milliseconds: rates are about real time, not about the service's clock. */
export type Ticks = () => number;

interface Rate {
  perMs: number;
  burst: number;
  ticks: Ticks;
}

/** One payer's tokens, full at first. */
export class Bucket {
  readonly #rate: Rate;
  #tokens: number;
  #at: number;

  constructor(rate: Rate) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#at = rate.ticks();
  }

  /** Takes a token and answers 0, or answers in how many milliseconds there will be one. */
  take(): number {
    this.#fill();
    if (this.#tokens < 1) return Math.ceil((1 - this.#tokens) / this.#rate.perMs);
    this.#tokens -= 1;
    return 0;
  }

  /** Takes a token though there may be none, and answers how long one who waits its turn would wait. */
  owe(): number {
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
export class Buckets {
  readonly #rate: Rate;
  readonly #buckets = new Map<string, Bucket>();
  #sweepAt: number;

  constructor(perSecond: number, burst: number, ticks: Ticks = () => performance.now()) {
    this.#rate = { perMs: perSecond / 1000, burst, ticks };
    this.#sweepAt = ticks();
  }

  of(payer: string): Bucket {
    this.#sweep();
    const known = this.#buckets.get(payer);
    if (known !== undefined) return known;
    const fresh = new Bucket(this.#rate);
    this.#buckets.set(payer, fresh);
    return fresh;
  }

  get size(): number {
    return this.#buckets.size;
  }

  #sweep(): void {
    const { burst, perMs, ticks } = this.#rate;
    const now = ticks();
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + Math.max(burst / perMs, 1_000);
    for (const [payer, bucket] of this.#buckets) if (bucket.isFull()) this.#buckets.delete(payer);
  }
}
