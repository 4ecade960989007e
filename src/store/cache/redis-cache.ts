import type { Redis } from 'ioredis';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Cache } from '../contract.ts';
import { ChannelSubscriptions } from './channel-subscriptions.ts';
import { MemoryCacheEntries } from './memory-cache-entries.ts';
import { connectRedis, PREFIX } from './redis-connection.ts';

const PROBE_MS = 250;
const SYNC_BATCH = 1_000;
/** Interval of the pings that detect a dead idle connection. */
const HEARTBEAT_MS = 1_000;
/** Upper bound of a time to live: cookie sessions live longest, and end with their token. */
const LONGEST_LIFE_MS = 24 * 60 * 60 * 1000;
/** All times here are durations, as in Redis, so a step of the host's clock has no effect. */
const monotonic: Clock = { now: () => performance.now() };
/** Number of unsynced keys from which expired ones are pruned while Redis is unavailable. */
const MANY_BEHIND = 1_000;

/**
 * Cache in Redis 6.2 and later, or Valkey. Writes also go to a local copy, which is used while Redis is unavailable.
 * After a reconnect, changed keys are written to Redis; after a restart of the server, all of them.
 */
export class RedisCache implements Cache {
  readonly #commands: Redis;
  readonly #subscriber: Redis;
  readonly #local = new MemoryCacheEntries(monotonic);
  /**
   * Keys that were changed while Redis was unavailable, with the monotonic time from which Redis has no entry for them.
   */
  readonly #unsynced = new Map<string, number>();
  #pruneAt = MANY_BEHIND;
  readonly #subscriptions = new ChannelSubscriptions();
  #disconnected = true;
  #closed = false;
  #reconnecting = false;
  #probe: NodeJS.Timeout | null = null;
  readonly #heartbeat: NodeJS.Timeout;
  /** Run id of the server at the last connection. */
  #serverRunId: string | null = null;

  /** Nothing is sent to Redis once `lease` is invalid. */
  constructor(url: string, lease: Lease) {
    this.#commands = connectRedis(url, lease);
    this.#subscriber = connectRedis(url, lease);
    this.#commands.on('ready', () => void this.#reconnect());
    this.#commands.on('close', () => this.#handleDisconnect());
    this.#subscriber.on('ready', () => {
      for (const channel of this.#subscriptions.channels()) void this.#subscribeInRedis(channel);
    });
    this.#subscriber.on('close', () => this.#subscriptions.interrupt());
    this.#subscriber.on('message', (channel: string, message: string) =>
      this.#subscriptions.deliver(channel.slice(PREFIX.length), message),
    );
    this.#heartbeat = setInterval(() => void this.#pingConnections(), HEARTBEAT_MS).unref();
  }

  /** Resolves when Redis answers and subscriptions are possible, or after `timeoutMs` without that. */
  async ready(timeoutMs: number): Promise<void> {
    const end = performance.now() + timeoutMs;
    const isReady = () => !this.#disconnected && this.#subscriber.status === 'ready';
    while (!isReady() && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
  }

  async get(key: string): Promise<string | null> {
    return this.#tryRedis(
      () => this.#commands.get(PREFIX + key),
      () => this.#local.get(key),
    );
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    const leftMs = Math.max(ttlMs, this.#local.entry(key)?.ttlMs ?? 0);
    await this.#local.set(key, value, ttlMs);
    await this.#writeThrough(key, leftMs, () =>
      this.#commands.set(PREFIX + key, value, 'PX', wholeMilliseconds(ttlMs)),
    );
  }

  async add(key: string, value: string, ttlMs: number): Promise<boolean> {
    const added = await this.#local.add(key, value, ttlMs);
    const set = await this.#writeThrough(key, ttlMs, () =>
      this.#commands.set(PREFIX + key, value, 'PX', wholeMilliseconds(ttlMs), 'NX'),
    );
    return set === undefined ? added : set === 'OK';
  }

  async take(key: string): Promise<string | null> {
    const leftMs = this.#local.entry(key)?.ttlMs ?? 0;
    const local = await this.#local.take(key);
    const taken = await this.#writeThrough(key, leftMs, () => this.#commands.getdel(PREFIX + key));
    return taken === undefined ? local : taken;
  }

  async delete(key: string): Promise<void> {
    const leftMs = this.#local.entry(key)?.ttlMs ?? LONGEST_LIFE_MS;
    await this.#local.delete(key);
    await this.#writeThrough(key, leftMs, () => this.#commands.del(PREFIX + key));
  }

  async publish(channel: string, message: string): Promise<void> {
    if (this.#disconnected) throw new Error('Redis is unavailable');
    await this.#commands.publish(PREFIX + channel, message).catch((error: unknown) => {
      this.#handleDisconnect();
      throw error;
    });
  }

  async subscribe(
    channel: string,
    listener: (message: string) => void,
    interrupted?: () => void,
  ): Promise<() => Promise<void>> {
    const unsubscribe = this.#subscriptions.add(channel, listener, interrupted);
    await this.#subscribeInRedis(channel);
    return async () => {
      unsubscribe();
      if (!this.#subscriptions.has(channel)) await this.#subscriber.unsubscribe(PREFIX + channel).catch(() => {});
    };
  }

  sizes(): CollectionSizes {
    return {
      ...this.#local.sizes(),
      ...this.#subscriptions.sizes(),
      redis_behind: this.#unsynced.size,
    };
  }

  healthy(): boolean {
    return !this.#disconnected;
  }

  isComplete(): boolean {
    return !this.#disconnected;
  }

  /** Number of changes to send to Redis after a reconnect. */
  get unsyncedCount(): number {
    return this.#unsynced.size;
  }

  /** True once no further connection is attempted: the lease has ended, or the cache was closed. */
  get ended(): boolean {
    return this.#commands.status === 'end';
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#probe) clearTimeout(this.#probe);
    clearInterval(this.#heartbeat);
    this.#commands.disconnect();
    this.#subscriber.disconnect();
    this.#subscriptions.clear();
    this.#local.clear();
  }

  /** Fails while Redis is unavailable; repeated when the connection is ready. */
  async #subscribeInRedis(channel: string): Promise<void> {
    await this.#subscriber.subscribe(PREFIX + channel).catch(() => {});
  }

  async #tryRedis<T>(run: () => Promise<T>, fallback: () => Promise<T>): Promise<T> {
    if (!this.#disconnected) {
      try {
        return await run();
      } catch {
        this.#handleDisconnect();
      }
    }
    return fallback();
  }

  /**
   * Returns undefined if Redis was not changed. The key is then synced after a reconnect, unless the entry that Redis
   * may have (it lives `leftMs` at most) has expired by then.
   */
  #writeThrough<T>(key: string, leftMs: number, run: () => Promise<T>): Promise<T | undefined> {
    return this.#tryRedis<T | undefined>(run, async () => {
      if (leftMs > 0) this.#markUnsynced(key, monotonic.now() + leftMs);
      return undefined;
    });
  }

  #markUnsynced(key: string, until: number): void {
    this.#unsynced.set(key, Math.max(until, this.#unsynced.get(key) ?? 0));
    if (this.#unsynced.size < this.#pruneAt) return;
    const now = monotonic.now();
    for (const [old, expiresAt] of this.#unsynced) if (expiresAt <= now) this.#unsynced.delete(old);
    this.#pruneAt = Math.max(MANY_BEHIND, 2 * this.#unsynced.size);
  }

  #handleDisconnect(): void {
    this.#disconnected = true;
    if (this.#closed || this.#probe) return;
    this.#probe = setTimeout(() => {
      this.#probe = null;
      void this.#reconnect();
    }, PROBE_MS).unref();
  }

  async #reconnect(): Promise<void> {
    if (!this.#disconnected || this.#closed || this.#reconnecting) return;
    this.#reconnecting = true;
    try {
      await this.#detectRestart();
      while (this.#unsynced.size > 0) await this.#syncBatch();
      this.#disconnected = false;
    } catch (error) {
      // A connection that does not answer would not close by itself.
      if ((error as Error).name !== 'ReplyError' && this.#commands.status === 'ready') this.#commands.disconnect(true);
      this.#handleDisconnect();
    } finally {
      this.#reconnecting = false;
    }
  }

  /** Detects a restarted server, which may have lost its entries. */
  async #detectRestart(): Promise<void> {
    const info = await this.#commands.info('server').catch((error: Error) => {
      // The server may not permit INFO.
      if (error.name === 'ReplyError') return '';
      throw error;
    });
    const runId = /^run_id:(\w+)/m.exec(info)?.[1] ?? '';
    if (this.#serverRunId !== null && this.#serverRunId !== runId) this.#markAllUnsynced();
    this.#serverRunId = runId;
  }

  #markAllUnsynced(): void {
    const now = monotonic.now();
    for (const key of [...this.#local.keys()]) {
      const entry = this.#local.entry(key);
      if (entry !== null) this.#markUnsynced(key, now + entry.ttlMs);
    }
  }

  async #pingConnections(): Promise<void> {
    if (!this.#disconnected) await this.#commands.ping().catch(() => this.#handleDisconnect());
    if (this.#subscriber.status !== 'ready') return;
    // A subscriber connection that no longer answers is replaced, and subscribes again.
    await this.#subscriber.ping().catch(() => this.#subscriber.disconnect(true));
  }

  async #syncBatch(): Promise<void> {
    const keys = [...this.#unsynced].slice(0, SYNC_BATCH);
    await Promise.all(
      keys.map(async ([key, until]) => {
        const entry = this.#local.entry(key);
        this.#unsynced.delete(key);
        try {
          if (entry) await this.#commands.set(PREFIX + key, entry.value, 'PX', wholeMilliseconds(entry.ttlMs));
          else await this.#commands.del(PREFIX + key);
        } catch (error) {
          this.#markUnsynced(key, until);
          throw error;
        }
      }),
    );
  }
}

/** Redis takes whole milliseconds, at least one. */
const wholeMilliseconds = (ttlMs: number): number => Math.max(1, Math.ceil(ttlMs));
