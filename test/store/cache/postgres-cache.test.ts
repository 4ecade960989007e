import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import { LEASE_MS, type Lease, RenewedLease, unlimitedLease } from '../../../src/domain/lease.ts';
import { PostgresCache } from '../../../src/store/cache/postgres-cache.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { eventually } from '../../support/clock.ts';
import { slow } from '../../support/slow.ts';
import { type FreshDatabase, freshDatabase } from '../../support/store.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

const serverUrl = inject('postgresUrl');
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

describe.runIf(serverUrl)('the cache in PostgreSQL', () => {
  let fresh: FreshDatabase;
  let database: Database;
  beforeAll(async () => {
    fresh = await freshDatabase(serverUrl ?? '');
    database = connectPostgres(fresh.url);
  });
  afterAll(async () => {
    await database.close();
    await fresh.drop();
  });

  interface Opening {
    url?: string;
    lease?: Lease;
    messagesUrl?: string | null;
  }
  async function open({ url = fresh.url, lease = unlimitedLease, messagesUrl = url }: Opening = {}) {
    const own = connectPostgres(url);
    const cache = new PostgresCache({ database: own, messagesUrl }, lease);
    closing.push(
      () => own.close(),
      () => cache.close(),
    );
    await eventually(() => cache.healthy());
    return cache;
  }
  async function behindProxy(): Promise<{ proxy: TcpProxy; cache: PostgresCache; direct: PostgresCache }> {
    const proxy = await startTcpProxy(fresh.url);
    closing.push(() => proxy.close());
    const cache = await open({ url: proxy.proxiedUrl(fresh.url) });
    return { proxy, cache, direct: await open() };
  }
  const keys = async (): Promise<string[]> =>
    (await database.read<{ key: string }>({ text: 'select key from cache_entries order by key' })).map(
      ({ key }) => key,
    );

  it('expires entries by the clock of the database, for any step of the host clock', async () => {
    const cache = await open();
    const key = randomUUID();
    const wall = Date.now;
    const step = vi.spyOn(Date, 'now').mockImplementation(() => wall() + 24 * 3_600_000);
    closing.push(async () => step.mockRestore());
    await cache.set(key, 'one', 60_000);
    step.mockRestore();
    const [row] = await database.read<{ left: number }>({
      text: 'select extract(epoch from expires_at - clock_timestamp())::float8 as left from cache_entries where key = $1',
      values: [key],
    });
    expect(row?.left).toBeGreaterThan(30);
    expect(row?.left).toBeLessThanOrEqual(60);
  });

  it('deletes expired entries in batches, by any number of nodes at the same time, and no others', async () => {
    await database.write({ text: 'delete from cache_entries' });
    await database.write({
      text: `insert into cache_entries
        select 'expired ' || n, 'value', clock_timestamp() - interval '1 ms' * n from generate_series(1, 1200) n`,
    });
    const [one, two] = [await open(), await open()];
    await one.set('kept', 'value', 60_000);
    await Promise.all([one.prune(), two.prune()]);
    await one.prune();
    expect(await keys()).toEqual(['kept']);
  });

  it('refuses keys, entries and messages above its limits', async () => {
    const cache = await open();
    const [key, channel] = [randomUUID(), 'channel'];
    const room = 7_999 - channel.length - 1;
    await cache.publish(channel, 'x'.repeat(room));
    await expect(cache.publish(channel, 'x'.repeat(room + 1))).rejects.toThrow(RangeError);
    await cache.set('k'.repeat(1_024), 'v'.repeat(256 * 1_024), 1_000);
    await expect(cache.set('é'.repeat(513), 'value', 1_000)).rejects.toThrow(RangeError);
    await expect(cache.add(key, 'v'.repeat(256 * 1_024 + 1), 1_000)).rejects.toThrow(RangeError);
    expect([await cache.get(key), cache.healthy()]).toEqual([null, true]);
  });

  it(
    'changes nothing, publishes nothing and stops listening once the lease of the process has ended',
    slow,
    async () => {
      let now = 0;
      const lease = new RenewedLease(
        LEASE_MS,
        () => now,
        () => {},
      );
      lease.begin(1, now);
      const [cache, direct] = [await open({ lease }), await open()];
      const [kept, added, channel] = [randomUUID(), randomUUID(), randomUUID()];
      const received: string[] = [];
      await direct.subscribe(channel, (message) => received.push(message));
      await cache.set(kept, 'before', 60_000);
      now += LEASE_MS;
      for (const refused of [
        () => cache.set(kept, 'stale', 60_000),
        () => cache.add(added, 'stale', 60_000),
        () => cache.take(kept),
        () => cache.delete(kept),
        () => cache.publish(channel, 'stale'),
      ]) {
        await expect(refused()).rejects.toBeInstanceOf(StoreUnavailable);
      }
      await direct.publish(channel, 'from an active process');
      await eventually(() => received.length > 0);
      await eventually(() => !cache.healthy());
      expect([received, await direct.get(kept), await direct.get(added)]).toEqual([
        ['from an active process'],
        'before',
        null,
      ]);
    },
  );

  it.each(['cut', 'silence'] as const)(
    'interrupts subscriptions when its connection is lost (%s), is unhealthy, and then receives again',
    slow,
    async (how) => {
      const { proxy, cache, direct } = await behindProxy();
      const channel = randomUUID();
      const received: string[] = [];
      let interruptions = 0;
      await cache.subscribe(
        channel,
        (message) => received.push(message),
        () => interruptions++,
      );
      await direct.publish(channel, 'before');
      await eventually(() => received.length > 0);
      proxy[how]();
      await eventually(() => interruptions > 0);
      expect(cache.healthy()).toBe(false);
      await direct.publish(channel, 'lost');
      proxy.restore();
      await eventually(async () => {
        await direct.publish(channel, 'after');
        return received.includes('after');
      });
      await eventually(() => cache.healthy());
      expect(new Set(received)).toEqual(new Set(['before', 'after']));
    },
  );

  it('replaces a connection that the network has forgotten', slow, async () => {
    const { proxy, cache, direct } = await behindProxy();
    const channel = randomUUID();
    let interruptions = 0;
    let received = 0;
    await cache.subscribe(
      channel,
      () => received++,
      () => interruptions++,
    );
    expect(proxy.freeze('twinkeep notifications')).toBe(1);
    await eventually(() => interruptions > 0);
    await eventually(async () => {
      await direct.publish(channel, 'after');
      return received > 0;
    });
  });

  it('throws StoreUnavailable and is unhealthy while the database does not answer its statements', slow, async () => {
    const { proxy, cache } = await behindProxy();
    const key = randomUUID();
    proxy.cut('twinkeep notifications');
    await expect(cache.set(key, 'one', 60_000)).rejects.toBeInstanceOf(StoreUnavailable);
    expect(cache.healthy()).toBe(false);
    proxy.restore();
    await cache.set(key, 'two', 60_000);
    expect([await cache.get(key), cache.healthy()]).toEqual(['two', true]);
  });

  it(
    'of one process delivers its messages without the database, and keeps its entries for the next process',
    slow,
    async () => {
      const sessions = async () =>
        (
          await database.read<{ pid: number }>({
            text: `select pid from pg_stat_activity where datname = current_database() and application_name = 'twinkeep notifications'`,
          })
        ).length;
      await eventually(async () => (await sessions()) === 0);
      const proxy = await startTcpProxy(fresh.url);
      closing.push(() => proxy.close());
      const cache = await open({ url: proxy.proxiedUrl(fresh.url), messagesUrl: null });
      const [key, channel] = [randomUUID(), randomUUID()];
      const received: string[] = [];
      await cache.subscribe(channel, (message) => received.push(message));
      await cache.set(key, 'kept', 60_000);
      expect(await sessions()).toBe(0);
      proxy.cut();
      await cache.publish(channel, 'x'.repeat(10_000));
      expect(received).toEqual(['x'.repeat(10_000)]);
      await expect(cache.get(key)).rejects.toBeInstanceOf(StoreUnavailable);
      expect(cache.healthy()).toBe(false);
      proxy.restore();
      expect([await cache.get(key), cache.healthy()]).toEqual(['kept', true]);
      await cache.close();
      expect(await (await open({ messagesUrl: null })).take(key)).toBe('kept');
    },
  );
});
