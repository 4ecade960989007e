import type { EpochMs } from '../../domain/values.ts';

export interface RetentionStore {
  /**
   * Deletes expired rows in small batches; returns the number of deleted rows. A table whose rows cannot be deleted does not
   * keep those of others: its error is thrown at the end.
   */
  prune(now: EpochMs, days: { commands: number; journal: number }, batch: number): Promise<number>;
  /** Records `now` as the time of the last pruning if there was none. */
  begin(now: EpochMs): Promise<void>;
  /** The `now` of the last completed pruning, or of the first `begin`; null before that. */
  lastPrunedAt(): Promise<EpochMs | null>;
}
