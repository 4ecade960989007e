import { type Clock, referenceOf } from '../domain/clock.ts';
import { DAY_MS, dayOf } from '../domain/history/report-collector.ts';
import { type HistoryRetention, longestRetention } from '../domain/history/retention.ts';
import type { Log } from '../domain/log.ts';
import type { EpochMs, Milliseconds } from '../domain/values.ts';
import type { HistoryCompaction } from '../services/history-compaction.ts';
import type { HistoryStore } from '../store/contract/history.ts';

const CHECK_MS: Milliseconds = 60_000;
const SWEEP_MS: Milliseconds = 3_600_000;

interface HistoryUpkeepParts {
  history: Pick<HistoryStore, 'makePartitions' | 'dropPartitions'>;
  compaction: HistoryCompaction;
  retention: HistoryRetention;
  clock: Clock;
  log: Log;
  /** True on one of the nodes that share the database. */
  isLeader(): boolean;
}

/** Compacts busy devices every minute and all others every hour, makes partitions ahead, and drops expired ones. */
export class HistoryUpkeep {
  readonly #parts: HistoryUpkeepParts;
  readonly #timer: NodeJS.Timeout;
  #sweepAt = 0;
  #running: Promise<void>;
  #isRunning = true;

  constructor(parts: HistoryUpkeepParts) {
    this.#parts = parts;
    // The partition of the day, before the first report if possible: without one it goes to the default partition.
    this.#running = this.#run(() => this.#makePartitions());
    this.#timer = setInterval(() => {
      if (!this.#isRunning) this.#running = this.#run(() => this.#maintain());
    }, CHECK_MS).unref();
  }

  /** Resolves when nothing is being compacted. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#parts.compaction.stop();
    await this.#running;
  }

  /** Drops what has expired by `now`, which is known not to be the time of a wrong clock. */
  async dropExpired(now: EpochMs): Promise<void> {
    const { history, compaction, retention, log } = this.#parts;
    const days = longestRetention(retention);
    const today = dayOf(now);
    const samplesFrom = today - days.samples;
    const compactedBefore = await compaction.compactedBefore();
    if (compactedBefore < samplesFrom * DAY_MS)
      log.error(
        { since: new Date(compactedBefore).toISOString() },
        'history: reports expire before they are compacted',
      );
    await history.dropPartitions({ today, samplesFrom, rollupsFrom: today - days.rollups }, compactedBefore);
  }

  async #run(work: () => Promise<void>): Promise<void> {
    this.#isRunning = true;
    try {
      await work();
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'history upkeep failed; retrying');
    } finally {
      this.#isRunning = false;
    }
  }

  async #maintain(): Promise<void> {
    const { compaction, isLeader } = this.#parts;
    await compaction.compactBusy();
    if (performance.now() < this.#sweepAt) return;
    this.#sweepAt = performance.now() + SWEEP_MS;
    await compaction.sweep();
    if (isLeader()) await this.#makePartitions();
  }

  async #makePartitions(): Promise<void> {
    const { history, clock } = this.#parts;
    await history.makePartitions(dayOf(Math.min(clock.now(), referenceOf(clock))));
  }
}
