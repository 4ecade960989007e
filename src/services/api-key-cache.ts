import { LRUCache } from 'lru-cache';
import { apiKeyPrefix, isApiKey, matchesHash } from '../domain/api-key.ts';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { EpochMs } from '../domain/values.ts';
import type { ApiKey, Store } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import { makeLivenessGuard } from './store-liveness.ts';

/**
 * Cache of API keys, verified as they are presented. Call `invalidate` after the commit that revokes or replaces a key.
 */
export interface ApiKeyCache extends SizeReporter {
  /** The live key with this text, or null. */
  verify(text: string): Promise<ApiKey | null>;
  isLive(prefix: string): Promise<boolean>;
  /** Like `findLive`, from memory only; undefined on a cache miss. */
  cached(prefix: string): ApiKey | null | undefined;
  /** The live key with this prefix, or null; for later work on behalf of a caller whose key was verified before. */
  findLive(prefix: string): Promise<ApiKey | null>;
  /** Buffered in memory and flushed every 5 s; a crash loses the last few seconds. */
  recordUse(prefix: string, at: EpochMs): void;
  /** The last use that may not be in the store yet. */
  lastUse(prefix: string): EpochMs | null;
  invalidate(prefix: string): void;
  /** Calls `listener` when a key ends before its expiry, for connections that depend on it. */
  subscribe(listener: (prefix: string) => void): () => void;
  flush(): Promise<void>;
  /** Flushes the buffered uses, unless `discardPending` was called. */
  close(): Promise<void>;
  /** Stops flushing; buffered uses are lost. */
  discardPending(): void;
}

const CACHED_KEYS = 20_000;
const FLUSH_MS = 5_000;
// Compared for unknown prefixes, so that the response time does not reveal which prefixes exist.
const DUMMY_HASH = 'A'.repeat(43);

export function makeApiKeyCache(
  store: Pick<Store, 'keys' | 'ping'>,
  {
    clock,
    log,
    invalidations = makeLocalInvalidationBus(),
  }: { clock: Clock; log: Log; invalidations?: InvalidationBus },
): ApiKeyCache {
  const guarded = makeLivenessGuard((timeoutMs) => store.ping(timeoutMs));
  /** Only existing keys: unknown prefixes are not cached. */
  const keys = new LRUCache<string, ApiKey>({ max: CACHED_KEYS });
  const loading = new Map<string, Promise<ApiKey | null>>();
  const listeners = new Set<(prefix: string) => void>();
  let uses = new Map<string, EpochMs>();
  let flushing: Promise<void> = Promise.resolve();
  let discarded = false;

  invalidations.subscribe((item) => {
    if (item.about !== 'key') return;
    keys.delete(item.prefix);
    loading.delete(item.prefix);
    for (const listener of [...listeners]) listener(item.prefix);
  });

  function load(prefix: string): Promise<ApiKey | null> {
    const started = store.keys.find(prefix).then(
      (key) => {
        // An invalidation during the load removed it from the map: its result may be stale, so it is not cached.
        if (loading.get(prefix) === started) {
          loading.delete(prefix);
          if (key !== null) keys.set(prefix, key);
        }
        return key;
      },
      (fault: unknown) => {
        if (loading.get(prefix) === started) loading.delete(prefix);
        throw fault;
      },
    );
    loading.set(prefix, started);
    return started;
  }

  const find = async (prefix: string): Promise<ApiKey | null> =>
    keys.get(prefix) ?? guarded(loading.get(prefix) ?? load(prefix));

  const isUsable = ({ revokedAt, expiresAt }: ApiKey): boolean =>
    revokedAt === null && (expiresAt === null || expiresAt > clock.now());

  async function write(): Promise<void> {
    const flushed = uses;
    if (flushed.size === 0 || discarded) return;
    uses = new Map();
    try {
      await store.keys.flushUse([...flushed].map(([prefix, usedAt]) => ({ prefix, usedAt })));
    } catch (error) {
      for (const [prefix, at] of flushed) if (!uses.has(prefix)) uses.set(prefix, at);
      log.warn({ err: error }, 'api key use flush failed; retrying at the next flush');
    }
  }
  const flush = (): Promise<void> => {
    flushing = flushing.then(write);
    return flushing;
  };
  const timer = setInterval(() => void flush(), FLUSH_MS).unref();

  return {
    async verify(text) {
      const prefix = isApiKey(text) ? apiKeyPrefix(text) : null;
      const key = prefix === null ? null : await find(prefix);
      const matches = matchesHash(text, key?.hash ?? DUMMY_HASH);
      return key !== null && matches && isUsable(key) ? key : null;
    },
    cached(prefix) {
      const key = keys.get(prefix);
      return key === undefined ? undefined : isUsable(key) ? key : null;
    },
    async isLive(prefix) {
      const key = await find(prefix);
      return key !== null && isUsable(key);
    },
    async findLive(prefix) {
      const key = await find(prefix);
      return key !== null && isUsable(key) ? key : null;
    },
    recordUse: (prefix, at) => void uses.set(prefix, at),
    lastUse: (prefix) => uses.get(prefix) ?? null,
    invalidate: (prefix) => invalidations.publish({ about: 'key', prefix }),
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    sizes: () => ({
      api_keys: keys.size,
      api_keys_loading: loading.size,
      api_key_uses: uses.size,
      api_key_listeners: listeners.size,
    }),
    flush,
    close() {
      clearInterval(timer);
      return flush();
    },
    discardPending() {
      discarded = true;
      clearInterval(timer);
    },
  };
}
