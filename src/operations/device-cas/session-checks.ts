import type { Invalidation } from '../../services/invalidation-bus.ts';
import { CommitUnknown } from '../../store/contract.ts';
import type { Services } from '../operation.ts';

/** The CA of the certificates that became invalid, and which of them. */
type ChangedCertificates = Omit<Extract<Invalidation, { about: 'ca' }>, 'about'>;

/**
 * Makes certificates of a CA invalid, after which the sessions that they opened are checked; `hasChanged`: whether the result is
 * that of a change. If the outcome is unknown, they are checked too: a repeated request may find nothing left to change.
 */
export async function withSessionChecks<T>(
  { invalidations }: Pick<Services, 'invalidations'>,
  certificates: ChangedCertificates,
  change: () => Promise<T>,
  hasChanged: (result: T) => boolean,
): Promise<T> {
  let isDue = false;
  try {
    const result = await change();
    isDue = hasChanged(result);
    return result;
  } catch (fault) {
    isDue = fault instanceof CommitUnknown;
    throw fault;
  } finally {
    if (isDue) invalidations.publish({ about: 'ca', ...certificates });
  }
}
