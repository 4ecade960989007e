import type { EpochMs } from '../../domain/values.ts';

export interface RetentionStore {
  /**
   * Deletes expired rows in small batches; returns the number of deleted rows. A table whose rows cannot be deleted does not
   * keep those of others: its error is thrown at the end.
   */
  prune(now: EpochMs, days: { commands: number; journal: number }, batch: number): Promise<number>;
  /** The `now` of the last completed pruning; null if there was none. */
  lastPrunedAt(): Promise<EpochMs | null>;
}
