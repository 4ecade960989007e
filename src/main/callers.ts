import { makeKeyRing } from '../operations/key-ring.ts';
import { openNews } from '../operations/news.ts';
import type { Services } from '../operations/operation.ts';
import { loadPresented } from '../operations/presented.ts';
import { loadRevocations } from '../operations/tokens.ts';
import { makeUsers } from '../operations/users.ts';

type CallerServices = Pick<Services, 'news' | 'users' | 'revocations' | 'keys' | 'presented'>;

/** What a process remembers of who calls, kept true by the news. */
export async function callerServices(
  parts: Pick<Services, 'store' | 'cache' | 'clock' | 'log' | 'newId'>,
): Promise<CallerServices> {
  const { store, cache, clock, log, newId } = parts;
  // Before anything is read that it may tell of.
  const news = await openNews(cache, newId(), log);
  return {
    news,
    users: makeUsers(store, news),
    revocations: await loadRevocations(store.identity, clock, news),
    keys: makeKeyRing(store, { clock, log, news }),
    presented: await loadPresented(store.identity, clock, news),
  };
}
