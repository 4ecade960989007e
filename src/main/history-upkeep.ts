import { type Clock, referenceOf } from '../domain/clock.ts';
import { DAY_MS, dayOf } from '../domain/day.ts';
import { type HistoryRetention, longestRetention } from '../domain/history/retention.ts';
import type { Log } from '../domain/log.ts';
import type { EpochMs, Milliseconds } from '../domain/values.ts';
import type { HistoryCompaction } from '../services/history-compaction.ts';
import type { HistoryStore } from '../store/contract/history.ts';

/** How often the upkeep checks what is due, and how often it sweeps and makes partitions. */
export interface UpkeepTiming {
  checkMs: Milliseconds;
  sweepMs: Milliseconds;
}

const defaultTiming: UpkeepTiming = { checkMs: 60_000, sweepMs: 3_600_000 };

interface HistoryUpkeepParts {
  history: Pick<HistoryStore, 'makePartitions' | 'dropPartitions'>;
  compaction: Pick<HistoryCompaction, 'compactBusy' | 'sweep' | 'progress' | 'stop'>;
  retention: HistoryRetention;
  clock: Clock;
  log: Log;
  /** True on one of the nodes that share the database. */
  isLeader(): boolean;
  timing?: Partial<UpkeepTiming> | undefined;
}

/** Compacts busy devices every minute and all others every hour, makes partitions ahead, and drops expired ones. */
export class HistoryUpkeep {
  readonly #parts: HistoryUpkeepParts;
  readonly #timer: NodeJS.Timeout;
  readonly #tasks: readonly PeriodicTask[];
  #hasMadePartitions = false;

  constructor(parts: HistoryUpkeepParts) {
    const { compaction, log } = parts;
    const { checkMs, sweepMs } = { ...defaultTiming, ...parts.timing };
    this.#parts = parts;
    const partitions = new PeriodicTask(log, sweepMs, () => this.#makePartitions());
    this.#tasks = [
      partitions,
      new PeriodicTask(log, 0, () => compaction.compactBusy()),
      new PeriodicTask(log, sweepMs, () => compaction.sweep()),
    ];
    // The partition of the day, before the first report if possible: without one it goes to the default partition.
    partitions.check();
    this.#timer = setInterval(() => {
      for (const task of this.#tasks) task.check();
    }, checkMs).unref();
  }

  /** Resolves when nothing is being compacted. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#parts.compaction.stop();
    for (const task of this.#tasks) await task.idle();
  }

  /** Drops what has expired by `now`, which is known not to be the time of a wrong clock. */
  async dropExpired(now: EpochMs): Promise<void> {
    const { history, compaction, retention, log } = this.#parts;
    const days = longestRetention(retention);
    const today = dayOf(now);
    const samplesFrom = today - days.samples;
    const { compactedBefore, openFrom } = await compaction.progress();
    if (compactedBefore < samplesFrom * DAY_MS)
      log.error(
        { since: new Date(compactedBefore).toISOString() },
        'history: reports expire before they are compacted',
      );
    if (openFrom !== null && openFrom < samplesFrom)
      log.error(
        { since: new Date(openFrom * DAY_MS).toISOString() },
        'history: samples expire before their day is merged',
      );
    await history.dropPartitions({ today, samplesFrom, rollupsFrom: today - days.rollups }, compactedBefore);
  }

  async #makePartitions(): Promise<void> {
    const { history, clock, isLeader } = this.#parts;
    if (this.#hasMadePartitions && !isLeader()) return;
    await history.makePartitions(dayOf(Math.min(clock.now(), referenceOf(clock))));
    this.#hasMadePartitions = true;
  }
}

/** Work that is repeated `everyMs` after it began, and after a failure at the next check. Its runs do not overlap. */
class PeriodicTask {
  readonly #log: Log;
  readonly #everyMs: Milliseconds;
  readonly #work: () => Promise<void>;
  #dueAt = 0;
  #running: Promise<void> | null = null;

  constructor(log: Log, everyMs: Milliseconds, work: () => Promise<void>) {
    this.#log = log;
    this.#everyMs = everyMs;
    this.#work = work;
  }

  check(): void {
    if (this.#running === null && performance.now() >= this.#dueAt) this.#running = this.#run();
  }

  /** Resolves when it is not running. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    const dueAt = performance.now() + this.#everyMs;
    try {
      await this.#work();
      this.#dueAt = dueAt;
    } catch (error) {
      this.#log.warn({ err: error }, 'history upkeep failed; retrying');
    } finally {
      this.#running = null;
    }
  }
}
