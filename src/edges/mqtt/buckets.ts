/** Monotonic milliseconds: rates are about real time, not about the service's clock. */
type Ticks = () => number;

interface Level {
  tokens: number;
  at: number;
}

/** Token buckets by key. A key that was left alone until its bucket is full again is forgotten. */
export class Buckets {
  readonly #perMs: number;
  readonly #burst: number;
  readonly #ticks: Ticks;
  readonly #levels = new Map<string, Level>();
  #sweepAt = 0;

  constructor(perSecond: number, burst: number, ticks: Ticks = () => performance.now()) {
    this.#perMs = perSecond / 1000;
    this.#burst = burst;
    this.#ticks = ticks;
  }

  /** Takes a token and answers 0, or answers in how many milliseconds there will be one. */
  take(key: string): number {
    const level = this.#level(key);
    if (level.tokens < 1) return Math.ceil((1 - level.tokens) / this.#perMs);
    level.tokens -= 1;
    return 0;
  }

  /** Takes a token though there may be none, and answers how long one who waits its turn would wait. */
  owe(key: string): number {
    const level = this.#level(key);
    level.tokens = Math.max(level.tokens - 1, -this.#burst);
    return level.tokens >= 0 ? 0 : Math.ceil(-level.tokens / this.#perMs);
  }

  get size(): number {
    return this.#levels.size;
  }

  #level(key: string): Level {
    const now = this.#ticks();
    this.#sweep(now);
    const level = this.#levels.get(key);
    if (level === undefined) {
      const fresh = { tokens: this.#burst, at: now };
      this.#levels.set(key, fresh);
      return fresh;
    }
    level.tokens = Math.min(this.#burst, level.tokens + (now - level.at) * this.#perMs);
    level.at = now;
    return level;
  }

  #sweep(now: number): void {
    if (now < this.#sweepAt) return;
    const fillMs = this.#burst / this.#perMs;
    this.#sweepAt = now + Math.max(fillMs, 1_000);
    for (const [key, { tokens, at }] of this.#levels) {
      if (tokens + (now - at) * this.#perMs >= this.#burst) this.#levels.delete(key);
    }
  }
}
