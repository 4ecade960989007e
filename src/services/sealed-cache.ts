import { SealBroken, type Sealer } from '../domain/sealing.ts';
import type { Cache } from '../store/contract.ts';

/**
 * The cache as it keeps what lets somebody in. Entries are sealed, each for its own key: whoever can write to Redis makes
 * up no session, and whoever can read it learns of none. What does not open is as good as not there.
 */
export type SealedCache = Pick<Cache, 'get' | 'set' | 'take' | 'delete'>;

const boundTo = (key: string): string => `cache ${key}`;

export function makeSealedCache(cache: SealedCache, { seal, open }: Sealer): SealedCache {
  function opened(key: string, kept: string | null): string | null {
    try {
      return kept === null ? null : open(kept, boundTo(key));
    } catch (error) {
      if (error instanceof SealBroken) return null;
      throw error;
    }
  }

  return {
    get: async (key) => opened(key, await cache.get(key)),
    take: async (key) => opened(key, await cache.take(key)),
    set: (key, value, ttlMs) => cache.set(key, seal(value, boundTo(key)), ttlMs),
    delete: (key) => cache.delete(key),
  };
}
