import { type Clock, elapsedOf, referenceOf } from '../domain/clock.ts';
import type { EpochMs } from '../domain/values.ts';

const PRUNE_INTERVAL_MS = 60_000;
/** The longest lifetime of a token issued by this service. */
const MIN_HELD_MS = 86_400_000;

interface DenylistEntry {
  /** When the token has expired for every verifier, leeway included. */
  until: EpochMs;
  /** When the entry was added, in monotonic milliseconds. */
  since: number;
  owner: string | undefined;
}

/**
 * Denylist of tokens by identifier, each until it has expired. A clock that is temporarily wrong must not readmit a
 * token: an entry is pruned only after its expiry by both the clock's time and its reference, and after a day of
 * monotonic time.
 */
export class TokenDenylist {
  readonly #clock: Clock;
  /** Ordered by `since`. */
  readonly #entries = new Map<string, DenylistEntry>();
  /** Number of entries of each owner that has any. */
  readonly #counts = new Map<string, number>();
  #prunedAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#prunedAt = elapsedOf(clock);
  }

  get size(): number {
    return this.#entries.size;
  }

  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** When the entry's token has expired for every verifier; undefined without an entry. */
  untilOf(id: string): EpochMs | undefined {
    return this.#entries.get(id)?.until;
  }

  /** Number of entries that were added for `owner`, also of expired tokens. */
  countOf(owner: string): number {
    return this.#counts.get(owner) ?? 0;
  }

  add(id: string, until: EpochMs, owner?: string): void {
    const elapsed = elapsedOf(this.#clock);
    this.#prune(elapsed);
    this.#delete(id);
    this.#entries.set(id, { until, since: elapsed, owner });
    if (owner !== undefined) this.#counts.set(owner, this.countOf(owner) + 1);
  }

  #delete(id: string): void {
    const owner = this.#entries.get(id)?.owner;
    this.#entries.delete(id);
    if (owner === undefined) return;
    const count = this.countOf(owner) - 1;
    if (count === 0) this.#counts.delete(owner);
    else this.#counts.set(owner, count);
  }

  #prune(elapsed: number): void {
    if (elapsed - this.#prunedAt < PRUNE_INTERVAL_MS) return;
    this.#prunedAt = elapsed;
    const now = Math.min(this.#clock.now(), referenceOf(this.#clock));
    for (const [id, { until, since }] of this.#entries) {
      if (elapsed - since < MIN_HELD_MS) return;
      if (until < now) this.#delete(id);
    }
  }
}
