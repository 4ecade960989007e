import { EventFailed, NoSuchActor, Overloaded, Quarantined } from '../actors/contract.ts';
import type { Log } from '../domain/log.ts';
import type { Refusal } from '../domain/refusals.ts';
import { CommitUnknown, DataRefused, StoreUnavailable } from '../store/contract.ts';

/** The identity provider is needed to tell whether a credential is good, and does not answer. */
export class ProviderUnavailable extends Error {
  override name = 'ProviderAway';
}

const STORE_RETRY_S = 2;
const PROVIDER_RETRY_S = 5;
const OVERLOAD_RETRY_S = 1;

/** What the caller hears of something thrown. What is no known fault is a bug: logged, and not described. */
export function refusalOf(thrown: unknown, log: Log, about: { request_id: string; operation?: string }): Refusal {
  if (thrown instanceof StoreUnavailable) {
    const detail = 'The store does not answer at the moment.';
    return { code: 'STORE_UNAVAILABLE', detail, retryAfterS: STORE_RETRY_S };
  }
  if (thrown instanceof CommitUnknown) {
    const detail = 'The store was lost in the middle: look whether it was done before asking again.';
    return { code: 'STORE_UNAVAILABLE', detail, retryAfterS: STORE_RETRY_S };
  }
  if (thrown instanceof ProviderUnavailable) {
    const detail = 'The identity provider does not answer, so that the credential cannot be checked.';
    return { code: 'OVERLOADED', detail, retryAfterS: PROVIDER_RETRY_S };
  }
  if (thrown instanceof Overloaded) {
    return { code: 'OVERLOADED', detail: 'Too much is waiting here; try again.', retryAfterS: OVERLOAD_RETRY_S };
  }
  if (thrown instanceof NoSuchActor) return { code: 'NOT_FOUND', detail: 'There is no such thing.' };
  log.error({ ...about, err: thrown }, 'operation failed');
  if (thrown instanceof Quarantined) {
    return { code: 'INTERNAL', detail: 'This one failed again and again and is held back until an operator looks.' };
  }
  if (thrown instanceof DataRefused) return { code: 'VALIDATION_FAILED', detail: 'The store cannot keep this.' };
  if (thrown instanceof EventFailed) return { code: 'INTERNAL', detail: 'It failed, and nothing was changed.' };
  return { code: 'INTERNAL', detail: 'Something went wrong on our side.' };
}
