import { EventFailed, NoSuchActor, Overloaded, Quarantined } from '../actors/contract.ts';
import type { Log } from '../domain/log.ts';
import type { Refusal } from '../domain/refusals.ts';
import { CommitUnknown, DataRefused, StoreUnavailable } from '../store/contract.ts';

/** The identity provider does not answer, so a credential cannot be verified. */
export class ProviderUnavailable extends Error {
  override name = 'ProviderUnavailable';
}

const STORE_RETRY_S = 2;
const PROVIDER_RETRY_S = 5;
const OVERLOAD_RETRY_S = 1;

/**
 * Maps a thrown error to the caller's refusal. Anything but a known fault is a bug: it is logged and answered without
 * details.
 */
export function refusalOf(thrown: unknown, log: Log, about: { request_id: string; operation?: string }): Refusal {
  if (thrown instanceof StoreUnavailable) {
    const detail = 'The store does not answer. Try again later.';
    return { code: 'STORE_UNAVAILABLE', detail, retryAfterS: STORE_RETRY_S };
  }
  if (thrown instanceof CommitUnknown) {
    const detail =
      'The database connection was lost during commit. Check whether the change was applied before retrying.';
    return { code: 'STORE_UNAVAILABLE', detail, retryAfterS: STORE_RETRY_S };
  }
  if (thrown instanceof ProviderUnavailable) {
    const detail = 'The identity provider does not answer, so the credential cannot be verified.';
    return { code: 'OVERLOADED', detail, retryAfterS: PROVIDER_RETRY_S };
  }
  if (thrown instanceof Overloaded) {
    return { code: 'OVERLOADED', detail: 'The service is overloaded. Try again later.', retryAfterS: OVERLOAD_RETRY_S };
  }
  if (thrown instanceof NoSuchActor) return { code: 'NOT_FOUND', detail: 'Resource not found.' };
  log.error({ ...about, err: thrown }, 'operation failed');
  if (thrown instanceof Quarantined) {
    return {
      code: 'INTERNAL',
      detail: 'The actor is quarantined after repeated failures. An administrator must release it.',
    };
  }
  if (thrown instanceof DataRefused) return { code: 'VALIDATION_FAILED', detail: 'The store rejected the data.' };
  if (thrown instanceof EventFailed) return { code: 'INTERNAL', detail: 'The request failed; nothing was changed.' };
  return { code: 'INTERNAL', detail: 'Internal error.' };
}
