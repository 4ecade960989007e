import { v7 } from 'uuid';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { systemClock } from '../../src/domain/clock.ts';
import { unlimitedLease } from '../../src/domain/lease.ts';
import { loadCallerServices } from '../../src/main/caller-services.ts';
import { StoreLiveness } from '../../src/services/store-liveness.ts';
import { isSignedOut } from '../../src/services/user-sessions.ts';
import { RedisCache } from '../../src/store/cache/redis-cache.ts';
import type { Cache, User } from '../../src/store/contract.ts';
import { openCache } from '../../src/store/open.ts';
import { connectPostgres } from '../../src/store/postgres/connect.ts';
import { eventually } from '../support/clock.ts';
import { MemoryStore } from '../support/memory-store.ts';
import { slow } from '../support/slow.ts';
import { freshDatabase } from '../support/store.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const log = { debug() {}, info() {}, warn() {}, error() {} };
const redisUrl = inject('redisUrl');
const postgresUrl = inject('postgresUrl');
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function openRedis(url: string): Promise<Cache> {
  const cache = new RedisCache(url, unlimitedLease);
  closing.push(() => cache.close());
  await cache.ready(2_000);
  return cache;
}

async function openPostgres(url: string): Promise<Cache> {
  const database = connectPostgres(url);
  const cache = await openCache({ redisUrl: null }, unlimitedLease, { database, messagesUrl: url });
  closing.push(
    () => database.close(),
    () => cache.close(),
  );
  return cache;
}

async function makeDatabase(): Promise<string> {
  const { url, drop } = await freshDatabase(postgresUrl ?? '');
  closing.push(drop);
  return url;
}

const servers = [
  ...(redisUrl === null ? [] : [{ name: 'Redis', makeUrl: async () => redisUrl, open: openRedis }]),
  ...(postgresUrl === null ? [] : [{ name: 'PostgreSQL', makeUrl: makeDatabase, open: openPostgres }]),
];

describe.each(servers)('two nodes whose bus is in $name', ({ makeUrl, open }) => {
  const store = new MemoryStore();

  async function start(cache: Cache, self: string, live: Set<string>) {
    const parts = { store, cache, clock: systemClock, log, newId: () => v7(), liveness: new StoreLiveness(store) };
    const services = await loadCallerServices({ ...parts, nodes: { self, live: () => live.add(self) } });
    closing.push(async () => {
      await services.apiKeys.close();
      await services.userSessions.close();
      await services.invalidations.close();
    });
    await eventually(() => services.invalidations.isCurrent());
    return services;
  }
  async function twoNodes() {
    const url = await makeUrl();
    const proxy: TcpProxy = await startTcpProxy(url);
    closing.push(() => proxy.close());
    const live = new Set<string>();
    const one = await start(await open(url), v7(), live);
    const two = await start(await open(proxy.proxiedUrl(url)), v7(), live);
    return { one, two, proxy };
  }

  it('know each other’s invalidations', async () => {
    const { one, two } = await twoNodes();
    const id = v7();
    await one.revocations.add(id, Date.now() + 60_000);
    await eventually(() => two.revocations.has(id) === true);
  });

  it('end the sessions of a user who signs out everywhere at the other one', async () => {
    const { one, two } = await twoNodes();
    const subject = { iss: 'urn:test', sub: v7(), email: null, emailVerified: false };
    const { id } = await two.users.findOrCreate({ id: v7(), ...subject, createdAt: 0 });
    const token = { id: v7(), expiresAt: Date.now() + 60_000, signedInAt: Date.now() - 1 };
    expect(isSignedOut((await two.users.get(id)) as User, token)).toBe(false);
    const ended: string[] = [];
    two.users.subscribe((userId) => ended.push(userId));
    await one.userSessions.endAll(id);
    await eventually(() => ended.includes(id));
    expect(isSignedOut((await two.users.get(id)) as User, token)).toBe(true);
  });

  it.each(['cut', 'freeze'] as const)(
    'read from the store while one of them is cut off (%s), and know all that was missed afterwards',
    slow,
    async (how) => {
      const { one, two, proxy } = await twoNodes();
      const [before, id, other] = [v7(), v7(), v7()];
      await one.revocations.add(before, Date.now() + 60_000);
      await eventually(() => two.revocations.has(before) === true);
      proxy[how]();
      await eventually(() => !two.invalidations.isCurrent());
      await one.revocations.add(id, Date.now() + 60_000);
      expect([await two.revocations.has(id), await two.revocations.has(other)]).toEqual([true, false]);
      proxy.restore();
      await eventually(() => two.invalidations.isCurrent() && one.invalidations.isCurrent());
      expect([two.revocations.has(id), two.revocations.has(other)]).toEqual([true, false]);
    },
  );
});
