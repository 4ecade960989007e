import { LRUCache } from 'lru-cache';
import { apiKeyPrefix, isApiKey, matchesHash } from '../domain/api-key.ts';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { EpochMs } from '../domain/values.ts';
import type { ApiKey, Store } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import { makeLivenessGuard } from './store-liveness.ts';

/** API keys as they are presented; whoever ends one in the store says `ended` after the commit. */
export interface ApiKeyCache extends SizeReporter {
  /** The live key that this text is, or null. */
  verify(text: string): Promise<ApiKey | null>;
  isLive(prefix: string): Promise<boolean>;
  /** As `live`, where memory tells; undefined where the store has to be asked. */
  cached(prefix: string): ApiKey | null | undefined;
  /** The key of this prefix while it lives, for what somebody who presented it asked for. */
  findLive(prefix: string): Promise<ApiKey | null>;
  /** Kept in memory and written every few seconds: a crash costs the last of them. */
  recordUse(prefix: string, at: EpochMs): void;
  /** A use that may not be in the store yet. */
  lastUse(prefix: string): EpochMs | null;
  invalidate(prefix: string): void;
  /** Called when a key died before its time, for what lives on it. */
  subscribe(listener: (prefix: string) => void): () => void;
  flush(): Promise<void>;
  /** Writes what is left, unless it `halt`ed before. */
  close(): Promise<void>;
  /** Writes nothing more. */
  discardPending(): void;
}

const CACHED_KEYS = 20_000;
const FLUSH_MS = 5_000;
// Someone who guesses prefixes is to learn nothing from the time that the answer takes.
const DUMMY_HASH = 'A'.repeat(43);

export function makeApiKeyCache(
  store: Pick<Store, 'keys' | 'ping'>,
  { clock, log, news = makeLocalInvalidationBus() }: { clock: Clock; log: Log; news?: InvalidationBus },
): ApiKeyCache {
  const patiently = makeLivenessGuard((timeoutMs) => store.ping(timeoutMs));
  /** Only keys that exist: guesses leave nothing behind. */
  const keys = new LRUCache<string, ApiKey>({ max: CACHED_KEYS });
  const loading = new Map<string, Promise<ApiKey | null>>();
  const listeners = new Set<(prefix: string) => void>();
  let uses = new Map<string, EpochMs>();
  let flushing: Promise<void> = Promise.resolve();
  let halted = false;

  news.subscribe((item) => {
    if (item.about !== 'key') return;
    keys.delete(item.prefix);
    loading.delete(item.prefix);
    for (const listener of [...listeners]) listener(item.prefix);
  });

  function load(prefix: string): Promise<ApiKey | null> {
    const started = store.keys.find(prefix).then(
      (key) => {
        // An end meanwhile took this load out of the map: what it read may be the living key.
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
    keys.get(prefix) ?? patiently(loading.get(prefix) ?? load(prefix));

  const lives = ({ revokedAt, expiresAt }: ApiKey): boolean =>
    revokedAt === null && (expiresAt === null || expiresAt > clock.now());

  async function write(): Promise<void> {
    const written = uses;
    if (written.size === 0 || halted) return;
    uses = new Map();
    try {
      await store.keys.flushUse([...written].map(([prefix, usedAt]) => ({ prefix, usedAt })));
    } catch (error) {
      for (const [prefix, at] of written) if (!uses.has(prefix)) uses.set(prefix, at);
      log.warn({ err: error }, 'the use of API keys is written later');
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
      const good = matchesHash(text, key?.hash ?? DUMMY_HASH);
      return key !== null && good && lives(key) ? key : null;
    },
    cached(prefix) {
      const key = keys.get(prefix);
      return key === undefined ? undefined : lives(key) ? key : null;
    },
    async isLive(prefix) {
      const key = await find(prefix);
      return key !== null && lives(key);
    },
    async findLive(prefix) {
      const key = await find(prefix);
      return key !== null && lives(key) ? key : null;
    },
    recordUse: (prefix, at) => void uses.set(prefix, at),
    lastUse: (prefix) => uses.get(prefix) ?? null,
    invalidate: (prefix) => news.publish({ about: 'key', prefix }),
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
      halted = true;
      clearInterval(timer);
    },
  };
}
