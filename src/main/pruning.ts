import type { Config } from '../config.ts';
import { elapsedOf, referenceOf } from '../domain/clock.ts';
import { DAY_MS } from '../domain/day.ts';
import type { EpochMs, Milliseconds } from '../domain/values.ts';
import type { Services } from '../operations/operation.ts';

const CHECK_MS = 60_000;
const PRUNE_MS = 3_600_000;
const PRUNE_BATCH = 500;
/** A longer time since the last pruning means downtime or a wrong clock; only a waiting time distinguishes the two. */
const PLAUSIBLE_GAP_MS = 7 * DAY_MS;
/** Time since the start of the process, and since the last such clock step, after which a longer gap is accepted. */
const GAP_CONFIRMED_MS = DAY_MS;

interface PruningParts extends Pick<Services, 'artifacts' | 'clock' | 'log'> {
  store: Pick<Services['store'], 'retention'>;
  /** False while the clocks are more than a minute apart. */
  isClockTrusted(): boolean;
  /** True on one of the nodes that share the database. */
  isLeader(): boolean;
  /** Drops the history of devices that has expired. */
  dropHistory(now: EpochMs): Promise<void>;
}

/** Deletes expired rows a minute after the start and then every hour, while the clock is trusted. */
export class Pruning {
  readonly #retentionDays: Config['retentionDays'];
  readonly #parts: PruningParts;
  readonly #timer: NodeJS.Timeout;
  /** Since when the clock's offset from the monotonic clock is constant. */
  #steadySince: Milliseconds;
  #offset: Milliseconds;
  #suspended = false;
  #dueAt = 0;
  #pruning = false;

  constructor({ retentionDays }: Pick<Config, 'retentionDays'>, parts: PruningParts) {
    this.#retentionDays = retentionDays;
    this.#parts = parts;
    this.#steadySince = elapsedOf(parts.clock);
    this.#offset = parts.clock.now() - this.#steadySince;
    this.#timer = setInterval(() => this.#check(), CHECK_MS).unref();
    this.#begin();
    this.#removeOrphans();
  }

  /** True while rows that are due are kept because the clock may be wrong. */
  suspended(): boolean {
    return this.#suspended;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #check(): void {
    this.#steadyMs();
    // After long downtime one run may exceed the interval; runs must not overlap.
    if (this.#pruning || performance.now() < this.#dueAt || !this.#parts.isLeader()) return;
    this.#dueAt = performance.now() + PRUNE_MS;
    this.#pruning = true;
    this.#prune()
      .catch((error) => this.#parts.log.warn({ err: error }, 'pruning failed; retrying'))
      .finally(() => {
        this.#pruning = false;
      });
    this.#removeOrphans();
  }

  async #prune(): Promise<void> {
    const { retention } = this.#parts.store;
    const now = this.#pruneTime();
    this.#suspended = !(await this.#isPlausible(now));
    if (this.#suspended) return;
    try {
      await retention.prune(now, this.#retentionDays, PRUNE_BATCH);
    } finally {
      // Also if rows of other tables could not be deleted.
      await this.#parts.dropHistory(now);
    }
  }

  /** A database that was not pruned yet shows at its next start whether the clock is ahead. */
  #begin(): void {
    const { store, log } = this.#parts;
    store.retention.begin(this.#pruneTime()).catch((error) => {
      log.warn({ err: error }, 'pruning start not recorded');
    });
  }

  #removeOrphans(): void {
    const { artifacts, log } = this.#parts;
    artifacts.removeOrphans().catch((error) => {
      log.warn({ err: error }, 'removal of orphaned artifacts failed; retrying');
    });
  }

  /** The time by which an event is due on both clocks while they differ by less than a minute. */
  #pruneTime(): EpochMs {
    const { clock } = this.#parts;
    return Math.min(clock.now(), referenceOf(clock));
  }

  async #isPlausible(now: EpochMs): Promise<boolean> {
    const { store, log, isClockTrusted } = this.#parts;
    if (!isClockTrusted()) {
      log.warn({}, 'pruning suspended: the clock is more than a minute off');
      return false;
    }
    const last = await store.retention.lastPrunedAt();
    if (last === null || now - last <= PLAUSIBLE_GAP_MS || this.#steadyMs() >= GAP_CONFIRMED_MS) return true;
    log.warn(
      { last_pruned_at: new Date(last).toISOString(), gap_days: Math.round((now - last) / DAY_MS) },
      'pruning suspended until the clock is steady for 24 hours: the last pruning is long ago, or the clock is wrong',
    );
    return false;
  }

  /** Monotonic milliseconds since the last clock step that could make rows look due. */
  #steadyMs(): Milliseconds {
    const { clock } = this.#parts;
    const elapsed = elapsedOf(clock);
    const currentOffset = clock.now() - elapsed;
    if (Math.abs(currentOffset - this.#offset) > PLAUSIBLE_GAP_MS) {
      this.#steadySince = elapsed;
      this.#offset = currentOffset;
    }
    return elapsed - this.#steadySince;
  }
}
