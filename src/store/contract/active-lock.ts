import type { Lease } from '../../domain/lease.ts';
import type { Uuid } from '../../domain/values.ts';

/** One renewal of the lease, to compare this machine's clock with the database's. */
export interface RenewalSample {
  /** Milliseconds of `performance.now()`. */
  sentAt: number;
  /** Milliseconds of `performance.now()`. */
  receivedAt: number;
  /** Epoch milliseconds, from `clock_timestamp()` in the statement of the renewal. */
  databaseNow: number;
}

/** Exclusive lock of the one active process of a database (contract §1). */
export interface ActiveLock {
  /** Invalid before `acquire` resolves and after the lock is lost or released. */
  readonly lease: Lease;
  /** The id of this process as a node; final when the lock is held. */
  readonly node: Uuid;
  /**
   * Resolves when this process is the active one; PGlite throws `OwnedByAnother` instead of waiting. With a database
   * server, `accepts` checks a reading of its clock before the sessions of the previous owner are terminated: if it
   * returns false, the lock is released and requested again, unless `signal` aborts.
   */
  acquire(signal: AbortSignal, accepts?: (sample: RenewalSample) => boolean): Promise<void>;
  /**
   * Called once when the lock's connection or its lease is lost: stop answering, writing and dispatching immediately.
   */
  onLost(listener: () => void): void;
  /**
   * Called after each confirmed renewal, and for the first time before `acquire` resolves. Never called for the
   * embedded database, which uses this machine's clock.
   */
  onRenewed(listener: (sample: RenewalSample) => void): void;
  release(): Promise<void>;
}

export class OwnedByAnother extends Error {
  override name = 'OwnedByAnother';
}
