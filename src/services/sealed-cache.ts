import { SealBroken, type SealedPlace, type Sealer } from '../domain/sealing.ts';
import type { Cache } from '../store/contract.ts';

/**
 * Encrypted view of the cache, for sessions and other credentials. Each entry is sealed and bound to its key: write
 * access to Redis or the database cannot forge a session, and read access reveals none. An entry that does not open counts
 * as missing.
 */
export type SealedCache = Pick<Cache, 'get' | 'set' | 'take' | 'delete'>;

const boundTo = (key: string): SealedPlace => ({ purpose: 'cache entries', aad: `cache ${key}` });

export function makeSealedCache(cache: SealedCache, { seal, open }: Pick<Sealer, 'seal' | 'open'>): SealedCache {
  function opened(key: string, stored: string | null): string | null {
    try {
      return stored === null ? null : open(stored, boundTo(key));
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
