import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, inject, it, vi } from 'vitest';
import { systemClock } from '../../../src/domain/clock.ts';
import { unlimitedLease } from '../../../src/domain/lease.ts';
import { MemoryCache } from '../../../src/store/cache/memory-cache.ts';
import { RedisCache } from '../../../src/store/cache/redis-cache.ts';
import type { Cache } from '../../../src/store/contract.ts';
import { openCache } from '../../../src/store/open.ts';
import { eventually, testClock } from '../../support/clock.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

const redisUrl = inject('redisUrl');
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(url: string | null): Promise<Cache> {
  const cache = await openCache({ redisUrl: url }, systemClock, unlimitedLease);
  closing.push(() => cache.close());
  return cache;
}

const backends = [{ name: 'memory', url: null }, ...(redisUrl === null ? [] : [{ name: 'Redis', url: redisUrl }])];

describe.each(backends)('a cache in $name', ({ url }) => {
  it('keeps an entry until it expires', async () => {
    const cache = await open(url);
    const [key, brief] = [randomUUID(), randomUUID()];
    expect(await cache.get(key)).toBeNull();
    await cache.set(key, 'one', 60_000);
    await cache.set(key, 'two "ü"', 60_000);
    await cache.set(brief, 'gone', 20);
    expect(await cache.get(key)).toBe('two "ü"');
    await eventually(async () => (await cache.get(brief)) === null);
    expect(await cache.get(key)).toBe('two "ü"');
  });

  it('adds only if the key is free', async () => {
    const cache = await open(url);
    const key = randomUUID();
    expect(await cache.add(key, 'one', 60_000)).toBe(true);
    expect(await cache.add(key, 'two', 60_000)).toBe(false);
    expect(await cache.get(key)).toBe('one');
    await cache.delete(key);
    expect(await cache.add(key, 'three', 20)).toBe(true);
    await eventually(() => cache.add(key, 'four', 60_000));
  });

  it('returns a taken entry to one caller', async () => {
    const cache = await open(url);
    const key = randomUUID();
    await cache.set(key, 'one', 60_000);
    const taken = await Promise.all(Array.from({ length: 10 }, () => cache.take(key)));
    expect(taken.filter((value) => value !== null)).toEqual(['one']);
    expect(await cache.get(key)).toBeNull();
  });

  it('forgets deleted entries', async () => {
    const cache = await open(url);
    const key = randomUUID();
    await cache.set(key, 'one', 60_000);
    await cache.delete(key);
    await cache.delete(key);
    expect(await cache.get(key)).toBeNull();
  });

  it('notifies each subscriber of a channel once, until it unsubscribes', async () => {
    const cache = await open(url);
    const channel = randomUUID();
    const received: string[] = [];
    const stop = await cache.subscribe(channel, (message) => received.push(`a ${message}`));
    const stopOther = await cache.subscribe(channel, (message) => received.push(`b ${message}`));
    await cache.publish(channel, 'x y');
    await cache.publish(randomUUID(), 'not theirs');
    await stop();
    await cache.publish(channel, 'z');
    await stopOther();
    await cache.publish(channel, 'nobody');
    expect(received).toEqual(['a x y', 'b x y', 'b z']);
  });

  it('is healthy', async () => {
    expect((await open(url)).healthy()).toBe(true);
  });
});

describe('a cache in memory', () => {
  it('keeps an entry until just before its expiry by the given clock', async () => {
    const clock = testClock();
    const cache = new MemoryCache(clock);
    await cache.set('key', 'one', 600_000);
    clock.advance(599_999);
    expect(await cache.get('key')).toBe('one');
    expect(await cache.add('key', 'two', 1)).toBe(false);
    expect(cache.entry('key')).toEqual({ value: 'one', ttlMs: 1 });
    clock.advance(1);
    expect(await cache.get('key')).toBeNull();
    expect(await cache.take('key')).toBeNull();
    expect(await cache.add('key', 'two', 1)).toBe(true);
  });
});

describe.runIf(redisUrl)('two processes with one Redis', () => {
  const two = async () => [await open(redisUrl), await open(redisUrl)] as const;

  it('share their entries', async () => {
    const [a, b] = await two();
    const key = randomUUID();
    await a.set(key, 'one', 60_000);
    expect(await b.get(key)).toBe('one');
    expect(await b.add(key, 'two', 60_000)).toBe(false);
    expect(await b.take(key)).toBe('one');
    expect(await a.get(key)).toBeNull();
    expect(await a.add(key, 'three', 60_000)).toBe(true);
  });

  it("receive each other's messages", async () => {
    const [a, b] = await two();
    const channel = randomUUID();
    const received: string[] = [];
    await a.subscribe(channel, (message) => received.push(`a ${message}`));
    const stop = await b.subscribe(channel, (message) => received.push(`b ${message}`));
    await a.publish(channel, 'hello');
    await eventually(() => received.length === 2);
    await stop();
    await b.publish(channel, 'again');
    await eventually(() => received.length === 3);
    expect(received.sort()).toEqual(['a again', 'a hello', 'b hello']);
  });
});

describe.runIf(redisUrl)('a Redis outage', () => {
  async function behindProxy(): Promise<{ proxy: TcpProxy; cache: Cache; direct: Cache }> {
    const proxy = await startTcpProxy(redisUrl ?? '');
    closing.push(() => proxy.close());
    const cache = await open(proxy.proxiedUrl(redisUrl ?? ''));
    return { proxy, cache, direct: await open(redisUrl) };
  }

  it.each(['cut', 'silence'] as const)(
    '(%s) is bridged by the entries of the process, which are written back afterwards',
    async (how) => {
      const { proxy, cache, direct } = await behindProxy();
      const key = (name: string) => `${name} ${how}`;
      for (const name of ['kept', 'deleted', 'taken', 'changed']) await cache.set(key(name), 'before', 60_000);
      proxy[how]();
      expect(await cache.get(key('kept'))).toBe('before');
      expect(cache.healthy()).toBe(false);
      await cache.delete(key('deleted'));
      expect(await cache.take(key('taken'))).toBe('before');
      expect(await cache.take(key('taken'))).toBeNull();
      await cache.set(key('changed'), 'meanwhile', 60_000);
      expect(await cache.add(key('added'), 'meanwhile', 60_000)).toBe(true);
      expect(await cache.add(key('kept'), 'meanwhile', 60_000)).toBe(false);
      proxy.restore();
      await eventually(() => cache.healthy());
      expect(await direct.get(key('deleted'))).toBeNull();
      expect(await direct.get(key('taken'))).toBeNull();
      expect(await direct.get(key('changed'))).toBe('meanwhile');
      expect(await direct.get(key('added'))).toBe('meanwhile');
      expect(await direct.get(key('kept'))).toBe('before');
      for (const name of ['kept', 'changed', 'added']) await direct.delete(key(name));
    },
  );

  it('does not stop messages within the process, and those of other processes return with Redis', async () => {
    const { proxy, cache, direct } = await behindProxy();
    const channel = randomUUID();
    const received: string[] = [];
    await cache.subscribe(channel, (message) => received.push(message));
    proxy.cut();
    await cache.publish(channel, 'alone');
    const late = randomUUID();
    await cache.subscribe(late, (message) => received.push(message));
    expect(received).toEqual(['alone']);
    proxy.restore();
    await eventually(async () => {
      await direct.publish(channel, 'from another');
      await direct.publish(late, 'later');
      return received.includes('from another') && received.includes('later');
    });
  });

  it('that is long leaves no pending writes for entries that expired or never existed', async () => {
    const { proxy, cache, direct } = await behindProxy();
    const redis = cache as RedisCache;
    const [closed, taken] = [randomUUID(), randomUUID()];
    for (const key of [closed, taken]) await direct.set(key, 'of another process', 60_000);
    proxy.cut();
    for (let n = 0; n < 5_000; n++) {
      await cache.set(`short ${n}`, 'value', 1);
      await cache.take(`nobody's ${n}`);
    }
    await eventually(async () => {
      await cache.set(randomUUID(), 'value', 1);
      return redis.unsyncedCount < 1_000;
    });
    await cache.delete(closed);
    expect(await cache.take(taken)).toBeNull();
    proxy.restore();
    await eventually(() => cache.healthy());
    expect(await direct.get(closed)).toBeNull();
    expect(await direct.take(taken)).toBe('of another process');
  });

  it('is followed by writing changed entries and deletions back, for any step of the host clock', async () => {
    const { proxy, cache, direct } = await behindProxy();
    const [kept, deleted] = [randomUUID(), randomUUID()];
    for (const key of [kept, deleted]) await cache.set(key, 'one', 60_000);
    proxy.cut();
    await cache.set(kept, 'two', 60_000);
    await cache.delete(deleted);
    const wall = Date.now;
    const step = vi.spyOn(Date, 'now').mockImplementation(() => wall() + 24 * 3_600_000);
    closing.push(async () => step.mockRestore());
    expect(await cache.get(kept)).toBe('two');
    proxy.restore();
    await eventually(async () => (await direct.get(kept)) === 'two');
    expect(await direct.get(deleted)).toBeNull();
  });

  it('at the start does not prevent the process from starting', async () => {
    const proxy = await startTcpProxy(redisUrl ?? '');
    closing.push(() => proxy.close());
    proxy.cut();
    const cache = new RedisCache(proxy.proxiedUrl(redisUrl ?? ''), unlimitedLease);
    closing.push(() => cache.close());
    const key = randomUUID();
    await cache.ready(50);
    expect(cache.healthy()).toBe(false);
    await cache.set(key, 'one', 60_000);
    expect(await cache.get(key)).toBe('one');
    proxy.restore();
    await eventually(() => cache.healthy());
    expect(await cache.get(key)).toBe('one');
  });
});
