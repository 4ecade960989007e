import type { Config } from '../config.ts';
import type { Services } from '../operations/operation.ts';

const PRUNE_MS = 3_600_000;
const PRUNE_BATCH = 500;

/** Removes at the start and every hour what is kept no longer; who stops clears the timer. */
export function keepPruning(
  { retentionDays }: Config,
  { store, artifacts, clock, log }: Pick<Services, 'store' | 'artifacts' | 'clock' | 'log'>,
): NodeJS.Timeout {
  const sweep = () =>
    void artifacts.sweep().catch((error) => {
      log.warn({ err: error }, 'left-over artifacts are removed later');
    });
  const timer = setInterval(() => {
    store.retention.prune(clock.now(), retentionDays, PRUNE_BATCH).catch((error) => {
      log.warn({ err: error }, 'old rows are pruned later');
    });
    sweep();
  }, PRUNE_MS);
  sweep();
  return timer.unref();
}
