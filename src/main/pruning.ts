import type { Config } from '../config.ts';
import type { Services } from '../operations/operation.ts';

const LOOK_MS = 60_000;
const PRUNE_MS = 3_600_000;
const PRUNE_BATCH = 500;

/** Removes a minute after the start and every hour from then on what is kept no longer; who stops clears the timer. */
export function keepPruning(
  { retentionDays }: Pick<Config, 'retentionDays'>,
  parts: Pick<Services, 'artifacts' | 'clock' | 'log'> & { store: Pick<Services['store'], 'retention'> },
): NodeJS.Timeout {
  const { store, artifacts, clock, log } = parts;
  const sweep = () =>
    void artifacts.sweep().catch((error) => {
      log.warn({ err: error }, 'left-over artifacts are removed later');
    });
  let dueAt = 0;
  let pruning = false;
  const timer = setInterval(() => {
    // After a long absence there is much to do: nothing is pruned twice at once.
    if (pruning || performance.now() < dueAt) return;
    dueAt = performance.now() + PRUNE_MS;
    pruning = true;
    store.retention
      .prune(clock.now(), retentionDays, PRUNE_BATCH)
      .catch((error) => log.warn({ err: error }, 'old rows are pruned later'))
      .finally(() => {
        pruning = false;
      });
    sweep();
  }, LOOK_MS);
  sweep();
  return timer.unref();
}
