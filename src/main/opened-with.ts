import type { Store } from '../store/contract.ts';

/**
 * Resolves to the opened store when `work`, which runs meanwhile, has succeeded. If it fails, the store is closed; the
 * error is that of the work, whether or not the store closes.
 */
export async function openedWith<Opened extends { store: Pick<Store, 'close'> }>(
  opening: Promise<Opened>,
  work: Promise<unknown>,
): Promise<Opened> {
  const [opened, worked] = await Promise.allSettled([opening, work]);
  if (opened.status === 'rejected') throw opened.reason;
  if (worked.status === 'fulfilled') return opened.value;
  await Promise.allSettled([opened.value.store.close()]);
  throw worked.reason;
}
