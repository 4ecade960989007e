import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Cache } from '../contract.ts';
import { MemoryCache } from './memory.ts';
import { connectRedis, PREFIX } from './redis-connection.ts';

const PROBE_MS = 250;
const CATCH_UP_BATCH = 1_000;
/** A connection that nobody uses may be dead without a word. */
const HEARTBEAT_MS = 1_000;
/** Nothing is kept longer than a cookie session, which ends with its token. */
const LONGEST_LIFE_MS = 24 * 60 * 60 * 1000;
/** Everything here is a duration, as it is in Redis: a step of the host's clock ends or prolongs none. */
const monotonic: Clock = { now: () => performance.now() };
/** Changes beyond which those that no longer matter are looked for while Redis is away. */
const MANY_BEHIND = 1_000;

/**
 * A cache in Redis 6.2 and later or Valkey. All that this process writes is also kept in it, so that while Redis is away
 * the process goes on with what it knew; what it wrote meanwhile is passed on when Redis is back, and all of it to a Redis
 * that was started anew.
 */
export class RedisCache implements Cache {
  private readonly commands: Redis;
  private readonly subscriber: Redis;
  private readonly local = new MemoryCache(monotonic);
  /** Keys that were changed while Redis was away, with the monotonic time from which it has nothing under them. */
  private readonly behind = new Map<string, number>();
  private lookThroughAt = MANY_BEHIND;
  private readonly channels = new Set<string>();
  /** Tells our own messages from those of other processes. */
  private readonly origin = randomUUID();
  private away = true;
  private closed = false;
  private returning = false;
  private probe: NodeJS.Timeout | null = null;
  private readonly heartbeat: NodeJS.Timeout;
  /** Which run of the server was last there. */
  private run: string | null = null;

  /** Nothing is sent to Redis once `lease` is over. */
  constructor(url: string, lease: Lease) {
    this.commands = connectRedis(url, lease);
    this.subscriber = connectRedis(url, lease);
    this.commands.on('ready', () => void this.comeBack());
    this.commands.on('close', () => this.goAway());
    this.subscriber.on('ready', () => {
      for (const channel of this.channels) void this.listen(channel);
    });
    this.subscriber.on('message', (channel: string, text: string) => this.heard(channel, text));
    this.heartbeat = setInterval(() => void this.beat(), HEARTBEAT_MS).unref();
  }

  /** Resolves when Redis answers, or after `timeoutMs` without it. */
  async ready(timeoutMs: number): Promise<void> {
    const end = performance.now() + timeoutMs;
    while (this.away && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
  }

  async get(key: string): Promise<string | null> {
    return this.ask(
      () => this.commands.get(PREFIX + key),
      () => this.local.get(key),
    );
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    const leftMs = Math.max(ttlMs, this.local.entry(key)?.ttlMs ?? 0);
    await this.local.set(key, value, ttlMs);
    await this.change(key, leftMs, () => this.commands.set(PREFIX + key, value, 'PX', whole(ttlMs)));
  }

  async add(key: string, value: string, ttlMs: number): Promise<boolean> {
    const first = await this.local.add(key, value, ttlMs);
    const set = await this.change(key, ttlMs, () => this.commands.set(PREFIX + key, value, 'PX', whole(ttlMs), 'NX'));
    return set === undefined ? first : set === 'OK';
  }

  async take(key: string): Promise<string | null> {
    const leftMs = this.local.entry(key)?.ttlMs ?? 0;
    const known = await this.local.take(key);
    const taken = await this.change(key, leftMs, () => this.commands.getdel(PREFIX + key));
    return taken === undefined ? known : taken;
  }

  async delete(key: string): Promise<void> {
    const leftMs = this.local.entry(key)?.ttlMs ?? LONGEST_LIFE_MS;
    await this.local.delete(key);
    await this.change(key, leftMs, () => this.commands.del(PREFIX + key));
  }

  /** Listeners here are told directly, those of other processes through Redis. */
  async publish(channel: string, message: string): Promise<void> {
    await this.local.publish(channel, message);
    await this.ask(
      () => this.commands.publish(PREFIX + channel, `${this.origin} ${message}`),
      async () => 0,
    );
  }

  async subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>> {
    const stop = await this.local.subscribe(channel, listener);
    this.channels.add(channel);
    await this.listen(channel);
    return async () => {
      await stop();
      if (this.local.hasListeners(channel)) return;
      this.channels.delete(channel);
      await this.subscriber.unsubscribe(PREFIX + channel).catch(() => {});
    };
  }

  sizes(): CollectionSizes {
    return { ...this.local.sizes(), redis_behind: this.behind.size, redis_channels: this.channels.size };
  }

  healthy(): boolean {
    return !this.away;
  }

  /** Changes that Redis is to be told when it is back. */
  get owed(): number {
    return this.behind.size;
  }

  async close(): Promise<void> {
    this.closed = true;
    if (this.probe) clearTimeout(this.probe);
    clearInterval(this.heartbeat);
    this.commands.disconnect();
    this.subscriber.disconnect();
    await this.local.close();
  }

  /** Fails while Redis is away; it is done again when the connection is ready. */
  private async listen(channel: string): Promise<void> {
    await this.subscriber.subscribe(PREFIX + channel).catch(() => {});
  }

  private heard(channel: string, text: string): void {
    const gap = text.indexOf(' ');
    if (text.slice(0, gap) === this.origin) return;
    void this.local.publish(channel.slice(PREFIX.length), text.slice(gap + 1));
  }

  private async ask<T>(run: () => Promise<T>, fallback: () => Promise<T>): Promise<T> {
    if (!this.away) {
      try {
        return await run();
      } catch {
        this.goAway();
      }
    }
    return fallback();
  }

  /**
   * Undefined where Redis was not changed: it is told when it is back, if what it may have under the key, which lives
   * `leftMs` at most, is not over by then.
   */
  private change<T>(key: string, leftMs: number, run: () => Promise<T>): Promise<T | undefined> {
    return this.ask<T | undefined>(run, async () => {
      if (leftMs > 0) this.owe(key, monotonic.now() + leftMs);
      return undefined;
    });
  }

  private owe(key: string, until: number): void {
    this.behind.set(key, Math.max(until, this.behind.get(key) ?? 0));
    if (this.behind.size < this.lookThroughAt) return;
    const now = monotonic.now();
    for (const [old, over] of this.behind) if (over <= now) this.behind.delete(old);
    this.lookThroughAt = Math.max(MANY_BEHIND, 2 * this.behind.size);
  }

  private goAway(): void {
    this.away = true;
    if (this.closed || this.probe) return;
    this.probe = setTimeout(() => {
      this.probe = null;
      void this.comeBack();
    }, PROBE_MS).unref();
  }

  private async comeBack(): Promise<void> {
    if (!this.away || this.closed || this.returning) return;
    this.returning = true;
    try {
      await this.recognise();
      while (this.behind.size > 0) await this.catchUp();
      this.away = false;
    } catch {
      this.goAway();
    } finally {
      this.returning = false;
    }
  }

  /** A server that was started anew may have lost what was there. */
  private async recognise(): Promise<void> {
    const about = await this.commands.info('server').catch((error: Error) => {
      // A server may be there and not tell about itself.
      if (error.name === 'ReplyError') return '';
      throw error;
    });
    const run = /^run_id:(\w+)/m.exec(about)?.[1] ?? '';
    if (this.run !== null && this.run !== run) this.oweAll();
    this.run = run;
  }

  private oweAll(): void {
    const now = monotonic.now();
    for (const key of [...this.local.keys()]) {
      const entry = this.local.entry(key);
      if (entry !== null) this.owe(key, now + entry.ttlMs);
    }
  }

  private async beat(): Promise<void> {
    if (!this.away) await this.commands.ping().catch(() => this.goAway());
    if (this.subscriber.status !== 'ready') return;
    // Who hears nothing any more connects anew, and subscribes again.
    await this.subscriber.ping().catch(() => this.subscriber.disconnect(true));
  }

  private async catchUp(): Promise<void> {
    const keys = [...this.behind].slice(0, CATCH_UP_BATCH);
    await Promise.all(
      keys.map(async ([key, until]) => {
        const entry = this.local.entry(key);
        this.behind.delete(key);
        try {
          if (entry) await this.commands.set(PREFIX + key, entry.value, 'PX', whole(entry.ttlMs));
          else await this.commands.del(PREFIX + key);
        } catch (error) {
          this.owe(key, until);
          throw error;
        }
      }),
    );
  }
}

/** Redis takes whole milliseconds, at least one. */
const whole = (ttlMs: number): number => Math.max(1, Math.ceil(ttlMs));
