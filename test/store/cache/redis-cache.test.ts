import { randomUUID } from 'node:crypto';
import { type AddressInfo, connect, createServer } from 'node:net';
import { afterEach, describe, expect, inject, it, vi } from 'vitest';
import { unlimitedLease } from '../../../src/domain/lease.ts';
import { RedisCache } from '../../../src/store/cache/redis-cache.ts';
import type { Cache } from '../../../src/store/contract.ts';
import { eventually } from '../../support/clock.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

const redisUrl = inject('redisUrl');
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(url: string): Promise<Cache> {
  const cache = new RedisCache(url, unlimitedLease);
  closing.push(() => cache.close());
  await cache.ready(2_000);
  return cache;
}

it.runIf(redisUrl)('a Redis cache is ready when it receives messages too', async () => {
  const { hostname, port } = new URL(redisUrl ?? '');
  const released = Promise.withResolvers<void>();
  let connections = 0;
  // The second connection is that for messages.
  const server = createServer(async (client) => {
    client.on('error', () => {});
    connections += 1;
    if (connections > 1) await released.promise;
    const upstream = connect(Number(port), hostname).on('error', () => {});
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(async () => void server.close());
  const cache = new RedisCache(`redis://127.0.0.1:${(server.address() as AddressInfo).port}`, unlimitedLease);
  closing.push(() => cache.close());
  const events: string[] = [];
  const ready = cache.ready(5_000).then(() => events.push('ready'));
  await eventually(() => cache.healthy());
  // Requests for much longer than `ready` needs to notice the first connection.
  for (const from = performance.now(); performance.now() < from + 100; ) await cache.get(randomUUID());
  events.push('released');
  released.resolve();
  await ready;
  expect(events).toEqual(['released', 'ready']);
  await cache.subscribe('channel', (message) => events.push(message));
  await cache.publish('channel', 'received');
  await eventually(() => events.includes('received'));
});

describe.runIf(redisUrl)('a Redis outage', () => {
  async function behindProxy(): Promise<{ proxy: TcpProxy; cache: Cache; direct: Cache }> {
    const proxy = await startTcpProxy(redisUrl ?? '');
    closing.push(() => proxy.close());
    const cache = await open(proxy.proxiedUrl(redisUrl ?? ''));
    return { proxy, cache, direct: await open(redisUrl ?? '') };
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

  it('interrupts subscriptions, loses messages, and ends with new subscriptions', async () => {
    const { proxy, cache, direct } = await behindProxy();
    const [channel, late] = [randomUUID(), randomUUID()];
    const received: string[] = [];
    let interruptions = 0;
    await cache.subscribe(
      channel,
      (message) => received.push(message),
      () => interruptions++,
    );
    proxy.cut();
    await eventually(() => interruptions > 0);
    await expect(cache.publish(channel, 'lost')).rejects.toThrow();
    await cache.subscribe(late, (message) => received.push(message));
    proxy.restore();
    await eventually(async () => {
      await direct.publish(channel, 'from another');
      await direct.publish(late, 'later');
      return received.includes('from another') && received.includes('later');
    });
    expect(received).not.toContain('lost');
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
