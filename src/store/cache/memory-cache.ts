import { LRUCache } from 'lru-cache';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { Cache } from '../contract.ts';
import { ChannelSubscriptions } from './channel-subscriptions.ts';

interface Entry {
  value: string;
  /** First moment at which the entry is expired. */
  until: EpochMs;
}

/** Maximum number of entries; the least recently used are evicted first. */
const MAX_ENTRIES = 200_000;

/** Cache of this process only. */
export class MemoryCache implements Cache {
  readonly #entries: LRUCache<string, Entry>;
  readonly #subscriptions = new ChannelSubscriptions();
  readonly #clock: Clock;

  /** Allocates memory for `maxEntries` at once. */
  constructor(clock: Clock, { maxEntries = MAX_ENTRIES }: { maxEntries?: number } = {}) {
    this.#entries = new LRUCache({ max: maxEntries });
    this.#clock = clock;
  }

  async get(key: string): Promise<string | null> {
    return this.#liveEntry(key)?.value ?? null;
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    this.#entries.set(key, { value, until: this.#clock.now() + Math.max(1, ttlMs) });
  }

  async add(key: string, value: string, ttlMs: number): Promise<boolean> {
    if (this.#liveEntry(key) !== null) return false;
    await this.set(key, value, ttlMs);
    return true;
  }

  async take(key: string): Promise<string | null> {
    const value = this.#liveEntry(key)?.value ?? null;
    this.#entries.delete(key);
    return value;
  }

  async delete(key: string): Promise<void> {
    this.#entries.delete(key);
  }

  /** Value and remaining time to live in milliseconds; null if the key is free. */
  entry(key: string): { value: string; ttlMs: number } | null {
    const entry = this.#liveEntry(key);
    return entry === null ? null : { value: entry.value, ttlMs: entry.until - this.#clock.now() };
  }

  /** Keys of all entries, including expired ones that were not removed yet. */
  keys(): Iterable<string> {
    return this.#entries.keys();
  }

  async publish(channel: string, message: string): Promise<void> {
    this.#subscriptions.deliver(channel, message);
  }

  async subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>> {
    const unsubscribe = this.#subscriptions.add(channel, listener);
    return async () => unsubscribe();
  }

  sizes(): CollectionSizes {
    return { cache_entries: this.#entries.size, ...this.#subscriptions.sizes() };
  }

  healthy(): boolean {
    return true;
  }

  async close(): Promise<void> {
    this.#entries.clear();
    this.#subscriptions.clear();
  }

  #liveEntry(key: string): Entry | null {
    const entry = this.#entries.get(key);
    if (entry === undefined) return null;
    if (this.#clock.now() < entry.until) return entry;
    this.#entries.delete(key);
    return null;
  }
}
