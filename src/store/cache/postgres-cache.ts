import { setTimeout as pause } from 'node:timers/promises';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import { type Cache, CommitUnknown, StoreUnavailable } from '../contract.ts';
import { type CacheEntries, cacheEntries } from '../postgres/cache-entries.ts';
import type { Database } from '../postgres/database.ts';
import { Notifications } from '../postgres/notifications.ts';
import { ChannelSubscriptions } from './channel-subscriptions.ts';

/** An index entry of PostgreSQL holds 2,700 bytes. */
const MAX_KEY_BYTES = 1_024;
const MAX_VALUE_BYTES = 256 * 1_024;
const PRUNE_MS = 60_000;
const PRUNE_BATCH = 500;
/** Pause between two batches, for other statements. */
const PRUNE_PAUSE_MS = 20;

/** The database of the store, which may be the embedded one. */
export interface CacheDatabase {
  database: Database;
  /** For the connection over which several nodes exchange messages; null: messages stay within this process. */
  messagesUrl: string | null;
}

/**
 * Cache in the database of the store, for deployments without Redis
 * (docs/decisions/0043-postgres-cache-and-bounded-staleness.md, 0076-sessions-of-one-process.md). Unlike the cache in
 * Redis it has no local copy: without the database the service does not work anyway. Every method that uses the database
 * throws `StoreUnavailable` or `CommitUnknown` while it does not answer, and `StoreUnavailable` without sending anything
 * once the lease is invalid.
 */
export class PostgresCache implements Cache {
  readonly #entries: CacheEntries;
  readonly #lease: Lease;
  readonly #subscriptions = new ChannelSubscriptions();
  /** Null if messages stay within this process. */
  readonly #notifications: Notifications | null;
  readonly #pruneTimer: NodeJS.Timeout;
  #pruning: Promise<void> | null = null;
  /** The last statement got no answer. */
  #failing = false;
  #closed = false;

  constructor({ database, messagesUrl }: CacheDatabase, lease: Lease) {
    this.#entries = cacheEntries(database);
    this.#lease = lease;
    this.#notifications = messagesUrl === null ? null : this.#openNotifications(messagesUrl);
    this.#pruneTimer = setInterval(() => void this.prune(), PRUNE_MS).unref();
  }

  /** Resolves when messages are received, or after `timeoutMs`. */
  async ready(timeoutMs: number): Promise<void> {
    await this.#notifications?.ready(timeoutMs);
  }

  get(key: string): Promise<string | null> {
    return this.#run(() => this.#entries.get(checkedKey(key)));
  }

  set(key: string, value: string, ttlMs: number): Promise<void> {
    return this.#run(() => this.#entries.set(checkedKey(key), checkedValue(value), Math.max(1, ttlMs)));
  }

  add(key: string, value: string, ttlMs: number): Promise<boolean> {
    return this.#run(() => this.#entries.add(checkedKey(key), checkedValue(value), Math.max(1, ttlMs)));
  }

  take(key: string): Promise<string | null> {
    return this.#run(() => this.#entries.take(checkedKey(key)));
  }

  delete(key: string): Promise<void> {
    return this.#run(() => this.#entries.delete(checkedKey(key)));
  }

  /** `channel` contains no space. Throws a RangeError if a notification of both has more than 7,998 bytes. */
  async publish(channel: string, message: string): Promise<void> {
    const notifications = this.#notifications;
    if (notifications === null) this.#subscriptions.deliver(channel, message);
    else await this.#run(() => notifications.send(`${channel} ${message}`));
  }

  async subscribe(
    channel: string,
    listener: (message: string) => void,
    interrupted?: () => void,
  ): Promise<() => Promise<void>> {
    const unsubscribe = this.#subscriptions.add(channel, listener, interrupted);
    return async () => unsubscribe();
  }

  /** Deletes expired entries in batches. Every process does so once a minute; concurrent runs share the work. */
  prune(): Promise<void> {
    this.#pruning ??= this.#deleteExpired().finally(() => {
      this.#pruning = null;
    });
    return this.#pruning;
  }

  sizes(): CollectionSizes {
    return this.#subscriptions.sizes();
  }

  healthy(): boolean {
    return this.#notifications?.listening !== false && !this.#failing;
  }

  /** Without the database each read throws. */
  isComplete(): boolean {
    return true;
  }

  /** To be called before the database is closed. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#pruneTimer);
    await this.#notifications?.close();
    await this.#pruning;
    this.#subscriptions.clear();
  }

  #openNotifications(url: string): Notifications {
    return new Notifications(url, this.#lease, {
      received: (payload) => {
        const gap = payload.indexOf(' ');
        this.#subscriptions.deliver(payload.slice(0, gap), payload.slice(gap + 1));
      },
      interrupted: () => this.#subscriptions.interrupt(),
    });
  }

  /** A failed run is continued by the next one. */
  async #deleteExpired(): Promise<void> {
    while (!this.#closed) {
      const deleted = await this.#run(() => this.#entries.prune(PRUNE_BATCH)).catch(() => 0);
      if (deleted < PRUNE_BATCH) return;
      await pause(PRUNE_PAUSE_MS, undefined, { ref: false });
    }
  }

  async #run<T>(statement: () => Promise<T>): Promise<T> {
    if (!this.#lease.valid()) throw new StoreUnavailable('the lease of this process has ended');
    try {
      const result = await statement();
      this.#failing = false;
      return result;
    } catch (error) {
      if (error instanceof StoreUnavailable || error instanceof CommitUnknown) this.#failing = true;
      throw error;
    }
  }
}

function checkedKey(key: string): string {
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) throw new RangeError(`a cache key has at most ${MAX_KEY_BYTES} bytes`);
  return key;
}

function checkedValue(value: string): string {
  if (Buffer.byteLength(value) > MAX_VALUE_BYTES)
    throw new RangeError(`a cache entry has at most ${MAX_VALUE_BYTES} bytes`);
  return value;
}
