import { LRUCache } from 'lru-cache';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import { entriesAtMost } from '../../domain/lru-bound.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { Cache } from '../contract.ts';

interface Entry {
  value: string;
  /** First moment at which the entry is expired. */
  until: EpochMs;
}

/** Maximum number of entries of one kind; the least recently used are evicted first. */
const MAX_ENTRIES = 200_000;

/**
 * Cache entries in the memory of this process: the local copy of `RedisCache`. Each kind of key, the text before the first
 * colon, has its own bound: entries that anyone can create, such as those of command-line sign-ins, evict no sessions.
 */
export class MemoryCacheEntries implements Pick<Cache, 'get' | 'set' | 'add' | 'take' | 'delete'>, SizeReporter {
  readonly #entries = new Map<string, LRUCache<string, Entry>>();
  readonly #maxEntries: number;
  readonly #clock: Clock;

  /** `maxEntries`: of each kind. */
  constructor(clock: Clock, { maxEntries = MAX_ENTRIES }: { maxEntries?: number } = {}) {
    this.#maxEntries = maxEntries;
    this.#clock = clock;
  }

  async get(key: string): Promise<string | null> {
    return this.#liveEntry(key)?.value ?? null;
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    this.#ofKind(key).set(key, { value, until: this.#clock.now() + Math.max(1, ttlMs) });
  }

  async add(key: string, value: string, ttlMs: number): Promise<boolean> {
    if (this.#liveEntry(key) !== null) return false;
    await this.set(key, value, ttlMs);
    return true;
  }

  async take(key: string): Promise<string | null> {
    const value = this.#liveEntry(key)?.value ?? null;
    this.#ofKind(key).delete(key);
    return value;
  }

  async delete(key: string): Promise<void> {
    this.#ofKind(key).delete(key);
  }

  /** Value and remaining time to live in milliseconds; null if the key is free. */
  entry(key: string): { value: string; ttlMs: number } | null {
    const entry = this.#liveEntry(key);
    return entry === null ? null : { value: entry.value, ttlMs: entry.until - this.#clock.now() };
  }

  /** Keys of all entries, including expired ones that were not removed yet. */
  keys(): Iterable<string> {
    return [...this.#entries.values()].flatMap((entries) => [...entries.keys()]);
  }

  sizes(): CollectionSizes {
    const entries = [...this.#entries.values()].reduce((sum, { size }) => sum + size, 0);
    return { cache_entries: entries };
  }

  clear(): void {
    this.#entries.clear();
  }

  #liveEntry(key: string): Entry | null {
    const entries = this.#ofKind(key);
    const entry = entries.get(key);
    if (entry === undefined) return null;
    if (this.#clock.now() < entry.until) return entry;
    entries.delete(key);
    return null;
  }

  #ofKind(key: string): LRUCache<string, Entry> {
    const kind = key.slice(0, key.indexOf(':') + 1);
    let entries = this.#entries.get(kind);
    if (entries === undefined) {
      entries = new LRUCache(entriesAtMost(this.#maxEntries));
      this.#entries.set(kind, entries);
    }
    return entries;
  }
}
