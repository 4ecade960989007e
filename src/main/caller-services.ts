import type { Services } from '../operations/operation.ts';
import { loadAgentTokens } from '../services/agent-tokens.ts';
import { ApiKeyCache } from '../services/api-key-cache.ts';
import { openInvalidationBus } from '../services/invalidation-bus.ts';
import type { StoreLiveness } from '../services/store-liveness.ts';
import { loadRevocations } from '../services/tokens.ts';
import { UserCache } from '../services/user-cache.ts';

export type CallerServices = Pick<Services, 'invalidations' | 'users' | 'revocations' | 'apiKeys' | 'agentTokens'>;

/** Loads the caches of callers and their credentials, kept current by the invalidation bus. */
export async function loadCallerServices(
  parts: Pick<Services, 'store' | 'cache' | 'clock' | 'log' | 'newId'> & { liveness: StoreLiveness },
): Promise<CallerServices> {
  const { store, cache, clock, log, newId, liveness } = parts;
  // Open the bus before the caches read their data, so that no invalidation is missed.
  const invalidations = await openInvalidationBus(cache, newId(), log);
  return {
    invalidations,
    users: new UserCache(store, { liveness, invalidations }),
    revocations: await loadRevocations(store.identity, clock, invalidations),
    apiKeys: new ApiKeyCache(store, { clock, log, liveness, invalidations }),
    agentTokens: await loadAgentTokens(store.identity, clock, invalidations),
  };
}
