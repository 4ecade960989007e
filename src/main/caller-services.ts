import type { Services } from '../operations/operation.ts';
import { loadAgentTokens } from '../services/agent-tokens.ts';
import { ApiKeyCache } from '../services/api-key-cache.ts';
import { type InvalidationBus, openInvalidationBus } from '../services/invalidation-bus.ts';
import { SharedInvalidationBus } from '../services/shared-invalidation-bus.ts';
import type { StoreLiveness } from '../services/store-liveness.ts';
import { loadRevocations } from '../services/tokens.ts';
import { UserCache } from '../services/user-cache.ts';
import { UserSessions } from '../services/user-sessions.ts';
import type { ActiveNodes } from './active-nodes.ts';

export type CallerServices = Pick<
  Services,
  'invalidations' | 'users' | 'revocations' | 'apiKeys' | 'agentTokens' | 'userSessions'
>;

type CallerParts = Pick<Services, 'store' | 'cache' | 'clock' | 'log' | 'newId'> & {
  liveness: StoreLiveness;
  /** Null if this is the only active node, which is the default. */
  nodes?: ActiveNodes | null;
  /** Default: a bus over the cache. */
  invalidations?: InvalidationBus;
};

/** Loads the caches of callers and their credentials, kept current by the invalidation bus. */
export async function loadCallerServices(parts: CallerParts): Promise<CallerServices> {
  const { store, clock, log, liveness } = parts;
  // Open the bus before the caches read their data, so that no invalidation is missed.
  const invalidations = parts.invalidations ?? (await openBus(parts));
  const users = new UserCache(store, { liveness, invalidations });
  const revocations = await loadRevocations(store.identity, clock, invalidations, liveness);
  return {
    ...{ invalidations, users, revocations },
    userSessions: new UserSessions(store, { clock, log, users, revocations }),
    apiKeys: new ApiKeyCache(store, { clock, log, liveness, invalidations }),
    agentTokens: await loadAgentTokens(store.identity, clock, invalidations, liveness),
  };
}

function openBus({ cache, log, newId, nodes = null }: CallerParts): Promise<InvalidationBus> {
  return nodes === null
    ? openInvalidationBus(cache, newId(), log)
    : SharedInvalidationBus.open({ cache, log, origin: nodes.self, liveNodes: nodes.live });
}
