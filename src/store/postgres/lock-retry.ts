import { setTimeout as pause } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { Log } from '../../domain/log.ts';
import type { Milliseconds } from '../../domain/values.ts';

/**
 * How long a change of the schema waits for the lock of a table. The statements of all nodes wait behind it, also the
 * renewals of their leases. The server ends the statement then, also if its client no longer exists.
 */
export const SCHEMA_LOCK_TIMEOUT_MS: Milliseconds = 500;

/** A lock that was not available in time, and a deadlock. */
const lockErrors = new Set(['55P03', '40P01']);

export interface LockRetry {
  log: Log;
  /** Aborts the pause between two attempts. */
  signal: AbortSignal;
}

/**
 * Repeats `attempt` as long as other transactions have its tables in use, with a pause that grows up to `pauses.maxMs`;
 * `attempt` limits its waits for locks itself. `fields` describe it in the log. Rejects with every other error, and when
 * the signal aborts.
 */
export async function retryWhileLocked<T>(
  attempt: () => Promise<T>,
  { log, signal }: LockRetry,
  pauses: BackoffLimits,
  fields: object,
): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await attempt();
    } catch (error) {
      if (!isLockError(error)) throw error;
      const delay = backoffDelay(failures, pauses, 'half');
      log.warn(
        { ...fields, err: error, retry_ms: Math.round(delay) },
        'schema not changed: a table is in use; retrying',
      );
      await pause(delay, undefined, { signal });
    }
  }
}

/** For errors of the driver, and for faults that have one as their cause. */
function isLockError(error: unknown): boolean {
  const { code, cause } = error as { code?: string; cause?: { code?: string } };
  return lockErrors.has(code ?? cause?.code ?? '');
}
