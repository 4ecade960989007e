import { type Clock, elapsedOf, referenceOf } from '../domain/clock.ts';
import type { EpochMs } from '../domain/values.ts';

const PRUNE_INTERVAL_MS = 60_000;
/** As long as a token of the service lives at most. */
const MIN_HELD_MS = 86_400_000;

interface DenylistEntry {
  /** When the token has expired for every verifier. */
  until: EpochMs;
  /** Since when it is held, in monotonic milliseconds. */
  since: number;
}

/**
 * Tokens that are refused something until they have expired, by an identifier. A clock that is wrong for a while must not bring
 * one back: it is forgotten when it is past its end by both times of the clock and was held for a day of monotonic time.
 */
export class TokenDenylist {
  readonly #clock: Clock;
  /** In the order of `since`. */
  readonly #held = new Map<string, DenylistEntry>();
  #forgotAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#forgotAt = elapsedOf(clock);
  }

  get size(): number {
    return this.#held.size;
  }

  has(id: string): boolean {
    return this.#held.has(id);
  }

  add(id: string, until: EpochMs): void {
    const elapsed = elapsedOf(this.#clock);
    this.#forget(elapsed);
    this.#held.delete(id);
    this.#held.set(id, { until, since: elapsed });
  }

  #forget(elapsed: number): void {
    if (elapsed - this.#forgotAt < PRUNE_INTERVAL_MS) return;
    this.#forgotAt = elapsed;
    const now = Math.min(this.#clock.now(), referenceOf(this.#clock));
    for (const [id, { until, since }] of this.#held) {
      if (elapsed - since < MIN_HELD_MS) return;
      if (until < now) this.#held.delete(id);
    }
  }
}
