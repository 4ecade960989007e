import { type Ticks, TokenBucket, type TokenRate } from '../../domain/token-bucket.ts';
import type { Milliseconds } from '../../domain/values.ts';

/** The rate limit of one key. */
export type RateLimit = Pick<TokenBucket, 'take' | 'reserve'>;

/** Token bucket of one key. */
class KeyBucket extends TokenBucket {
  /** Removed while it was full: the key has a newer bucket, or gets one. */
  discarded = false;
}

/** Token buckets by key. A bucket that is full again is removed: a new one would be identical. */
export class TokenBuckets {
  readonly #rate: TokenRate;
  readonly #buckets = new Map<string, KeyBucket>();
  #sweepAt: number;

  constructor(perSecond: number, burst: number, ticks: Ticks = () => performance.now()) {
    this.#rate = { perMs: perSecond / 1000, burst, maxDebt: burst, ticks };
    this.#sweepAt = ticks();
  }

  /** The limit of a key. The caller may keep it: all limits of one key share the same tokens. */
  limitFor(key: string): RateLimit {
    this.#sweep();
    let bucket = this.#bucketFor(key);
    const current = (): KeyBucket => {
      if (bucket.discarded) bucket = this.#bucketFor(key);
      return bucket;
    };
    return { take: () => current().take(), reserve: () => current().reserve() };
  }

  /** Milliseconds until a key has a token. */
  waitMs(key: string): Milliseconds {
    return this.#buckets.get(key)?.waitMs ?? 0;
  }

  get size(): number {
    return this.#buckets.size;
  }

  #bucketFor(key: string): KeyBucket {
    const existing = this.#buckets.get(key);
    if (existing !== undefined) return existing;
    const bucket = new KeyBucket(this.#rate);
    this.#buckets.set(key, bucket);
    return bucket;
  }

  #sweep(): void {
    const { burst, perMs, ticks } = this.#rate;
    const now = ticks();
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + Math.max(burst / perMs, 1_000);
    for (const [key, bucket] of this.#buckets) {
      if (!bucket.isFull) continue;
      bucket.discarded = true;
      this.#buckets.delete(key);
    }
  }
}
