import { LRUCache } from 'lru-cache';
import type { Cache } from '../contract.ts';

type Listener = (message: string) => void;

/** Entries kept at most; the least recently used go first. */
const MAX_ENTRIES = 200_000;

/** A cache of this process alone. */
export class MemoryCache implements Cache {
  private readonly entries = new LRUCache<string, string>({ max: MAX_ENTRIES, ttlResolution: 0 });
  private readonly listeners = new Map<string, Set<Listener>>();

  async get(key: string): Promise<string | null> {
    return this.entries.get(key) ?? null;
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    this.entries.set(key, value, { ttl: Math.max(1, ttlMs) });
  }

  async add(key: string, value: string, ttlMs: number): Promise<boolean> {
    if (this.entries.get(key) !== undefined) return false;
    this.entries.set(key, value, { ttl: Math.max(1, ttlMs) });
    return true;
  }

  async take(key: string): Promise<string | null> {
    const value = this.entries.get(key) ?? null;
    this.entries.delete(key);
    return value;
  }

  async delete(key: string): Promise<void> {
    this.entries.delete(key);
  }

  /** What is left of an entry's life in milliseconds, with its value; null where there is none. */
  entry(key: string): { value: string; ttlMs: number } | null {
    const value = this.entries.get(key);
    return value === undefined ? null : { value, ttlMs: this.entries.getRemainingTTL(key) };
  }

  async publish(channel: string, message: string): Promise<void> {
    for (const listener of [...(this.listeners.get(channel) ?? [])]) listener(message);
  }

  async subscribe(channel: string, listener: Listener): Promise<() => Promise<void>> {
    const heard = this.listeners.get(channel) ?? new Set();
    this.listeners.set(channel, heard.add(listener));
    return async () => {
      heard.delete(listener);
      if (heard.size === 0 && this.listeners.get(channel) === heard) this.listeners.delete(channel);
    };
  }

  /** Whether anybody here listens. */
  hasListeners(channel: string): boolean {
    return this.listeners.has(channel);
  }

  healthy(): boolean {
    return true;
  }

  async close(): Promise<void> {
    this.entries.clear();
    this.listeners.clear();
  }
}
