import { LRUCache } from 'lru-cache';
import { apiKeyPrefix, isApiKey, matchesHash } from '../domain/api-key.ts';
import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import { entriesAtMost } from '../domain/lru-bound.ts';
import type { EpochMs } from '../domain/values.ts';
import type { ApiKey, Store } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import type { StoreLiveness } from './store-liveness.ts';

const CACHED_KEYS = 20_000;
const FLUSH_MS = 5_000;
// Compared for unknown prefixes, so that the response time does not reveal which prefixes exist.
const DUMMY_HASH = 'A'.repeat(43);

/** Called when a key has ended before its expiry, or ends before it at `endsAt`. */
type KeyListener = (prefix: string, endsAt: EpochMs | null) => void;

/**
 * Cache of API keys, verified as they are presented. Call `invalidate` after the commit that revokes or replaces a key.
 */
export class ApiKeyCache implements SizeReporter {
  readonly #store: Pick<Store, 'keys'>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #invalidations: InvalidationBus;
  readonly #liveness: StoreLiveness;
  /** Only existing keys: unknown prefixes are not cached. */
  readonly #keys: LRUCache<string, ApiKey>;
  readonly #loading = new Map<string, Promise<ApiKey | null>>();
  readonly #listeners = new Set<KeyListener>();
  readonly #flushTimer: NodeJS.Timeout;
  #uses = new Map<string, EpochMs>();
  #flushing: Promise<void> = Promise.resolve();
  #discarded = false;

  constructor(
    store: Pick<Store, 'keys'>,
    {
      clock,
      log,
      liveness,
      invalidations = makeLocalInvalidationBus(),
    }: { clock: Clock; log: Log; liveness: StoreLiveness; invalidations?: InvalidationBus },
  ) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#invalidations = invalidations;
    this.#liveness = liveness;
    this.#flushTimer = setInterval(() => void this.flush(), FLUSH_MS).unref();
    this.#keys = new LRUCache({ ...entriesAtMost(CACHED_KEYS), ttl: invalidations.entryLifeMs });
    invalidations.subscribeMissed(() => {
      this.#keys.clear();
      this.#loading.clear();
    });
    invalidations.subscribe((item) => {
      if (item.about !== 'key') return;
      this.#keys.delete(item.prefix);
      this.#loading.delete(item.prefix);
      for (const listener of [...this.#listeners]) listener(item.prefix, item.endsAt ?? null);
    });
  }

  /** The valid key with this text, or null; then `refused` is called with the key that has the prefix of the text. */
  async verify(text: string, refused?: (key: ApiKey) => void): Promise<ApiKey | null> {
    const prefix = isApiKey(text) ? apiKeyPrefix(text) : null;
    const key = prefix === null ? null : await this.#find(prefix);
    const matches = matchesHash(text, key?.hash ?? DUMMY_HASH);
    if (key === null || (matches && this.#isUsable(key))) return key;
    refused?.(key);
    return null;
  }

  /** Like `findValid`, from memory only; undefined on a miss, or while the memory may be outdated. */
  cached(prefix: string): ApiKey | null | undefined {
    const key = this.#invalidations.isCurrent() ? this.#keys.get(prefix) : undefined;
    return key === undefined ? undefined : this.#isUsable(key) ? key : null;
  }

  async isValid(prefix: string): Promise<boolean> {
    const key = await this.#find(prefix);
    return key !== null && this.#isUsable(key);
  }

  /** The valid key with this prefix, or null; for later work on behalf of a caller whose key was verified before. */
  async findValid(prefix: string): Promise<ApiKey | null> {
    const key = await this.#find(prefix);
    return key !== null && this.#isUsable(key) ? key : null;
  }

  /** Buffered in memory and flushed every 5 s; a crash loses the last few seconds. */
  recordUse(prefix: string, at: EpochMs): void {
    this.#uses.set(prefix, at);
  }

  /** The last use that may not be in the store yet. */
  lastUse(prefix: string): EpochMs | null {
    return this.#uses.get(prefix) ?? null;
  }

  /** `endsAt`: the key remains valid until then; null if it has ended. */
  invalidate(prefix: string, endsAt: EpochMs | null = null): void {
    this.#invalidations.publish({ about: 'key', prefix, ...(endsAt !== null && { endsAt }) });
  }

  /** For connections that depend on keys. */
  subscribe(listener: KeyListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  sizes(): CollectionSizes {
    return {
      api_keys: this.#keys.size,
      api_keys_loading: this.#loading.size,
      api_key_uses: this.#uses.size,
      api_key_listeners: this.#listeners.size,
    };
  }

  /** Flushes the buffered uses, unless `discardPending` was called. */
  close(): Promise<void> {
    clearInterval(this.#flushTimer);
    return this.flush();
  }

  /** Stops flushing; buffered uses are lost. */
  discardPending(): void {
    this.#discarded = true;
    clearInterval(this.#flushTimer);
  }

  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#write());
    return this.#flushing;
  }

  #load(prefix: string): Promise<ApiKey | null> {
    const started = this.#store.keys.find(prefix).then(
      (key) => {
        // An invalidation during the load removed it from the map: its result may be stale, so it is not cached.
        if (this.#loading.get(prefix) === started) {
          this.#loading.delete(prefix);
          if (key !== null) this.#keys.set(prefix, key);
        }
        return key;
      },
      (fault: unknown) => {
        if (this.#loading.get(prefix) === started) this.#loading.delete(prefix);
        throw fault;
      },
    );
    this.#loading.set(prefix, started);
    return started;
  }

  async #find(prefix: string): Promise<ApiKey | null> {
    if (!this.#invalidations.isCurrent()) return this.#liveness.guard(this.#store.keys.find(prefix));
    return this.#keys.get(prefix) ?? this.#liveness.guard(this.#loading.get(prefix) ?? this.#load(prefix));
  }

  #isUsable({ revokedAt, expiresAt }: ApiKey): boolean {
    return revokedAt === null && (expiresAt === null || expiresAt > this.#clock.now());
  }

  async #write(): Promise<void> {
    const flushed = this.#uses;
    if (flushed.size === 0 || this.#discarded) return;
    this.#uses = new Map();
    try {
      await this.#store.keys.flushUse([...flushed].map(([prefix, usedAt]) => ({ prefix, usedAt })));
    } catch (error) {
      for (const [prefix, at] of flushed) if (!this.#uses.has(prefix)) this.#uses.set(prefix, at);
      this.#log.warn({ err: error }, 'api key use flush failed; retrying at the next flush');
    }
  }
}
