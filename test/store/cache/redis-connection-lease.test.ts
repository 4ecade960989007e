import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, inject, it, onTestFinished } from 'vitest';
import { LEASE_MS, RenewedLease } from '../../../src/domain/lease.ts';
import { RedisCache } from '../../../src/store/cache/redis-cache.ts';
import { PREFIX } from '../../../src/store/cache/redis-connection.ts';
import { RedisRateLimiter } from '../../../src/store/cache/redis-rate-limiter.ts';
import { eventually, testClock } from '../../support/clock.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

const url = inject('redisUrl') ?? '';
const TTL_MS = 60_000;

/** The active process with a lease on a clock that the test sets; `server` reads the content of Redis. */
describe.runIf(url !== '')('Redis, after the lease of this process ended,', () => {
  let now: number;
  let lease: RenewedLease;
  let server: Redis;

  beforeEach(() => {
    now = 0;
    lease = new RenewedLease(
      LEASE_MS,
      () => now,
      () => {},
    );
    lease.begin(1, now);
    server = new Redis(url);
  });
  afterEach(() => server.disconnect());

  const outlastLease = () => {
    now += LEASE_MS;
  };
  async function openCache(at = url): Promise<RedisCache> {
    const cache = new RedisCache(at, lease);
    onTestFinished(() => cache.close());
    await eventually(() => cache.healthy());
    return cache;
  }
  const stored = (key: string) => server.get(PREFIX + key);

  it('is not changed: no entry is set, added, taken or deleted', async () => {
    const cache = await openCache();
    const [set, added, taken, deleted] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
    for (const key of [set, taken, deleted]) await cache.set(key, 'before', TTL_MS);
    await eventually(() => cache.healthy() && cache.unsyncedCount === 0);
    outlastLease();
    await cache.set(set, 'stale', TTL_MS);
    await cache.add(added, 'stale', TTL_MS);
    await cache.take(taken);
    await cache.delete(deleted);
    expect(await Promise.all([set, added, taken, deleted].map(stored))).toEqual(['before', null, 'before', 'before']);
    expect(cache.healthy()).toBe(false);
  });

  it('gets no changes from the time of an outage', async () => {
    const proxy = await startTcpProxy(url);
    onTestFinished(() => proxy.close());
    const cache = await openCache(proxy.proxiedUrl(url));
    const [loggedOut, loggedIn] = [randomUUID(), randomUUID()];
    await cache.set(loggedOut, 'session', TTL_MS);
    proxy.cut();
    await eventually(() => !cache.healthy());
    await cache.set(loggedIn, 'session', TTL_MS);
    await server.del(PREFIX + loggedOut);
    await cache.set(loggedOut, 'session', TTL_MS);
    expect(cache.unsyncedCount).toBe(2);
    outlastLease();
    proxy.restore();
    await eventually(() => cache.ended || cache.unsyncedCount === 0);
    expect(await Promise.all([loggedOut, loggedIn].map(stored))).toEqual([null, null]);
    expect(cache.unsyncedCount).toBe(2);
  });

  it('publishes none of its messages to other processes', async () => {
    const cache = await openCache();
    const channel = randomUUID();
    const received: string[] = [];
    const other = new Redis(url);
    onTestFinished(() => other.disconnect());
    await other.subscribe(PREFIX + channel);
    other.on('message', (_, text: string) => received.push(text));
    outlastLease();
    await expect(cache.publish(channel, 'stale')).rejects.toThrow();
    await server.publish(PREFIX + channel, 'from the active process');
    await eventually(() => received.length > 0);
    expect(received).toEqual(['from the active process']);
  });

  it('keeps the counts of the active process: rates are copied neither periodically nor at the end', async () => {
    const rates = new RedisRateLimiter(url, testClock(), lease);
    await eventually(() => rates.connected);
    const id = randomUUID();
    const counted = () => server.get(`${PREFIX}rate tenant ${id}`);
    rates.take('tenant', id, 10, 3);
    await eventually(async () => (await counted()) === '3');
    outlastLease();
    await server.set(`${PREFIX}rate tenant ${id}`, '9', 'KEEPTTL');
    rates.take('tenant', id, 10, 1);
    await rates.close();
    expect(await counted()).toBe('9');
  });

  it('gets no new connection', async () => {
    const proxy = await startTcpProxy(url);
    onTestFinished(() => proxy.close());
    const cache = await openCache(proxy.proxiedUrl(url));
    outlastLease();
    proxy.cut();
    await eventually(() => cache.ended);
  });
});
