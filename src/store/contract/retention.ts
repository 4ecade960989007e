import type { EpochMs } from '../../domain/values.ts';

export interface RetentionStore {
  /** Deletes in small batches what is older; answers how many rows went. */
  prune(now: EpochMs, days: { commands: number; journal: number }, batch: number): Promise<number>;
  /** The `now` of the last pruning that was completed; null where there was none. */
  lastPrunedAt(): Promise<EpochMs | null>;
}
