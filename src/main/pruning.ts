import type { Config } from '../config.ts';
import { elapsedOf, referenceOf } from '../domain/clock.ts';
import type { EpochMs } from '../domain/values.ts';
import type { Services } from '../operations/operation.ts';

const CHECK_MS = 60_000;
const PRUNE_MS = 3_600_000;
const PRUNE_BATCH = 500;
const DAY_MS = 86_400_000;
/** A longer time since the last pruning means downtime or a wrong clock; only a waiting time distinguishes the two. */
const PLAUSIBLE_GAP_MS = 7 * DAY_MS;
/** Time since the start of the process, and since the last such clock step, after which a longer gap is accepted. */
const GAP_CONFIRMED_MS = DAY_MS;

interface PruningParts extends Pick<Services, 'artifacts' | 'clock' | 'log'> {
  store: Pick<Services['store'], 'retention'>;
  /** False while the clocks are more than a minute apart. */
  isClockTrusted(): boolean;
}

export interface Pruning {
  /** True while rows that are due are kept because the clock may be wrong. */
  suspended(): boolean;
  stop(): void;
}

/** Deletes expired rows a minute after the start and then every hour, while the clock is trusted. */
export function startPruning({ retentionDays }: Pick<Config, 'retentionDays'>, parts: PruningParts): Pruning {
  const { store, artifacts, clock, log, isClockTrusted } = parts;
  /** Since when the clock's offset from the monotonic clock is constant, and that offset. */
  let steadySince = elapsedOf(clock);
  let offset = clock.now() - steadySince;
  let suspended = false;
  const sweep = () =>
    void artifacts.removeOrphans().catch((error) => {
      log.warn({ err: error }, 'removal of orphaned artifacts failed; retrying');
    });

  /** The time by which an event is due on both clocks while they differ by less than a minute. */
  const pruneTime = (): EpochMs => Math.min(clock.now(), referenceOf(clock));

  /** Monotonic milliseconds since the last clock step that could make rows look due. */
  function steadyMs(): number {
    const elapsed = elapsedOf(clock);
    const currentOffset = clock.now() - elapsed;
    if (Math.abs(currentOffset - offset) > PLAUSIBLE_GAP_MS) {
      steadySince = elapsed;
      offset = currentOffset;
    }
    return elapsed - steadySince;
  }

  async function isPlausible(now: EpochMs): Promise<boolean> {
    if (!isClockTrusted()) {
      log.warn({}, 'pruning suspended: the clock is more than a minute off');
      return false;
    }
    const last = await store.retention.lastPrunedAt();
    if (last === null || now - last <= PLAUSIBLE_GAP_MS || steadyMs() >= GAP_CONFIRMED_MS) return true;
    log.warn(
      { last_pruned_at: new Date(last).toISOString(), gap_days: Math.round((now - last) / DAY_MS) },
      'pruning suspended until the clock is steady for 24 hours: the last pruning is long ago, or the clock is wrong',
    );
    return false;
  }

  async function prune(): Promise<void> {
    const now = pruneTime();
    suspended = !(await isPlausible(now));
    if (!suspended) await store.retention.prune(now, retentionDays, PRUNE_BATCH);
  }

  let dueAt = 0;
  let pruning = false;
  const timer = setInterval(() => {
    steadyMs();
    // After long downtime one run may exceed the interval; runs must not overlap.
    if (pruning || performance.now() < dueAt) return;
    dueAt = performance.now() + PRUNE_MS;
    pruning = true;
    prune()
      .catch((error) => log.warn({ err: error }, 'pruning failed; retrying'))
      .finally(() => {
        pruning = false;
      });
    sweep();
  }, CHECK_MS).unref();
  sweep();
  return { suspended: () => suspended, stop: () => clearInterval(timer) };
}
