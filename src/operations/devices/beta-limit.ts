import { type Outcome, refuse } from '../../domain/refusals.ts';
import type { Services } from '../operation.ts';

/** Activates one more device, unless the number of active devices has reached `BETA_DEVICE_LIMIT`. */
export function withinBetaLimit<T>(
  { locks, settings, store }: Pick<Services, 'locks' | 'settings' | 'store'>,
  activate: () => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  const limit = settings.betaDeviceLimit;
  if (limit === 0) return activate();
  const withinLimit = async (): Promise<Outcome<T>> => {
    if ((await store.devices.countActive()) < limit) return activate();
    return refuse('BETA_LIMIT_REACHED', 'The service has reached its limit of active devices for the beta.');
  };
  // The first lock limits this process to one connection for the second one, which other nodes respect too.
  return locks.exclusive('beta-limit', () => store.devices.withActivationLock(withinLimit));
}
