import { setTimeout as pause } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import { CommitUnknown, StoreUnavailable } from '../store/contract.ts';

const RETRY: BackoffLimits = { firstMs: 50, maxMs: 1_000 };

/**
 * Does a write that has the same effect if it is repeated. If its outcome is unknown, it is repeated until it is known, for as
 * long as the store is unavailable; the caller may stop waiting earlier. A first attempt that had no effect is not repeated.
 */
export async function untilKnown<T>(write: () => Promise<T>): Promise<T> {
  let isUnknown = false;
  for (let failures = 1; ; failures++) {
    try {
      return await write();
    } catch (fault) {
      isUnknown ||= fault instanceof CommitUnknown;
      if (!isUnknown || !(fault instanceof CommitUnknown || fault instanceof StoreUnavailable)) throw fault;
      await pause(backoffDelay(failures, RETRY), undefined, { ref: false });
    }
  }
}
