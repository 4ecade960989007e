import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, describe, expect, inject, it } from 'vitest';
import { systemClock } from '../../src/domain/clock.ts';
import { unlimitedLease } from '../../src/domain/lease.ts';
import type { CacheDatabase } from '../../src/store/cache/postgres-cache.ts';
import type { Cache } from '../../src/store/contract.ts';
import { openCache } from '../../src/store/open.ts';
import { connectPostgres } from '../../src/store/postgres/connect.ts';
import { eventually } from '../support/clock.ts';
import { MemoryCache } from '../support/memory-cache.ts';
import { type FreshDatabase, freshDatabase, openSharedPglite } from '../support/store.ts';

const redisUrl = inject('redisUrl');
const postgresUrl = inject('postgresUrl');
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(redisUrl: string | null, database: CacheDatabase): Promise<Cache> {
  const cache = await openCache({ redisUrl }, unlimitedLease, database);
  closing.push(() => cache.close());
  return cache;
}

let fresh: Promise<FreshDatabase> | null = null;
let embedded: ReturnType<typeof openSharedPglite> | null = null;
afterAll(async () => {
  await (await fresh)?.drop();
  await (await embedded)?.close();
});

async function openInPostgres(redisUrl: string | null = null): Promise<Cache> {
  fresh ??= freshDatabase(postgresUrl ?? '');
  const { url } = await fresh;
  const database = connectPostgres(url);
  closing.push(() => database.close());
  return open(redisUrl, { database, messagesUrl: url });
}

async function openInPglite(redisUrl: string | null = null): Promise<Cache> {
  embedded ??= openSharedPglite();
  return open(redisUrl, { database: (await embedded).backend.database, messagesUrl: null });
}

const servers = [
  ...(redisUrl === null ? [] : [{ name: 'Redis', open: () => openInPglite(redisUrl) }]),
  ...(postgresUrl === null ? [] : [{ name: 'PostgreSQL', open: () => openInPostgres() }]),
];
const backends = [
  { name: 'memory', open: async () => new MemoryCache(systemClock) },
  { name: 'PGlite', open: () => openInPglite() },
  ...servers,
];

describe.each(backends)('a cache in $name', ({ open }) => {
  it('keeps an entry until it expires', async () => {
    const cache = await open();
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
    const cache = await open();
    const key = randomUUID();
    expect(await cache.add(key, 'one', 60_000)).toBe(true);
    expect(await cache.add(key, 'two', 60_000)).toBe(false);
    expect(await cache.get(key)).toBe('one');
    await cache.delete(key);
    expect(await cache.add(key, 'three', 20)).toBe(true);
    await eventually(() => cache.add(key, 'four', 60_000));
  });

  it('returns a taken entry to one caller', async () => {
    const cache = await open();
    const key = randomUUID();
    await cache.set(key, 'one', 60_000);
    const taken = await Promise.all(Array.from({ length: 10 }, () => cache.take(key)));
    expect(taken.filter((value) => value !== null)).toEqual(['one']);
    expect(await cache.get(key)).toBeNull();
  });

  it('forgets deleted entries', async () => {
    const cache = await open();
    const key = randomUUID();
    await cache.set(key, 'one', 60_000);
    await cache.delete(key);
    await cache.delete(key);
    expect(await cache.get(key)).toBeNull();
  });

  it('delivers each message once to each subscriber of its channel, in order, until it unsubscribes', async () => {
    const cache = await open();
    const channel = randomUUID();
    const received: string[] = [];
    const stop = await cache.subscribe(channel, (message) => received.push(`a ${message}`));
    const stopOther = await cache.subscribe(channel, (message) => received.push(`b ${message}`));
    await cache.publish(channel, 'x y');
    await cache.publish(randomUUID(), 'not theirs');
    await eventually(() => received.length === 2);
    await stop();
    await cache.publish(channel, 'z');
    await eventually(() => received.length === 3);
    await stopOther();
    await cache.publish(channel, 'nobody');
    const end = await cache.subscribe(channel, (message) => received.push(`c ${message}`));
    await cache.publish(channel, 'last');
    await eventually(() => received.includes('c last'));
    await end();
    expect(received.filter((text) => text !== 'c nobody')).toEqual(['a x y', 'b x y', 'b z', 'c last']);
  });

  it('keeps entries and messages with quotes, line breaks and characters of every plane', async () => {
    const cache = await open();
    const [key, channel, text] = [randomUUID(), randomUUID(), '"\'\\\n é \u{1F600} '];
    const received: string[] = [];
    await cache.subscribe(channel, (message) => received.push(message));
    await cache.set(key, text, 60_000);
    await cache.publish(channel, text);
    await eventually(() => received.length > 0);
    expect([await cache.get(key), await cache.take(key), received]).toEqual([text, text, [text]]);
  });

  it('is healthy', async () => {
    expect((await open()).healthy()).toBe(true);
  });
});

describe.each(servers)('two processes with one $name', ({ open }) => {
  const two = async () => [await open(), await open()] as const;

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

  it('add an expired key, and take a value, once', async () => {
    const caches = await two();
    const key = randomUUID();
    await caches[0].set(key, 'expired', 1);
    await eventually(async () => (await caches[0].get(key)) === null);
    const everywhere = <T>(call: (cache: Cache, n: number) => Promise<T>) =>
      Promise.all(Array.from({ length: 10 }, (_, n) => call(caches[n % 2] as Cache, n)));
    const added = await everywhere((cache, n) => cache.add(key, `${n}`, 60_000));
    expect(added.filter(Boolean)).toHaveLength(1);
    const taken = await everywhere((cache) => cache.take(key));
    expect(taken.filter((value) => value !== null)).toEqual([`${added.indexOf(true)}`]);
  });
});
