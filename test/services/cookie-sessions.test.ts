import { v7 } from 'uuid';
import { expect, it } from 'vitest';
import { makeCookieSessions } from '../../src/services/cookie-sessions.ts';
import type { SealedCache } from '../../src/services/sealed-cache.ts';
import { testClock } from '../support/clock.ts';
import { MemoryCache } from '../support/memory-cache.ts';

it('a session that is closed while it is read has ended', async () => {
  const clock = testClock(1_000_000);
  const entries = new Map<string, string>();
  let arrives = Promise.resolve();
  const sealedCache: SealedCache = {
    async get(key) {
      const found = entries.get(key) ?? null;
      await arrives;
      return found;
    },
    set: async (key, value) => void entries.set(key, value),
    delete: async (key) => void entries.delete(key),
    take: async () => null,
  };
  const holder = { userId: v7(), scopes: null, platformAdmin: false, csrf: null };
  const token = { id: 't', expiresAt: clock.now() + 60_000 };
  const { secret } = await makeCookieSessions({ sealedCache, clock }).open({ ...holder, token });
  // As after a restart: with an empty memory.
  const sessions = makeCookieSessions({ sealedCache, clock });
  let arrive = () => {};
  arrives = new Promise((resolve) => {
    arrive = resolve;
  });
  const reading = sessions.find(secret);
  await sessions.close(secret);
  arrive();
  await reading;
  expect([sessions.isCached(secret), await sessions.find(secret)]).toEqual([false, null]);
});

it('a session is unknown from the start of its closing, for any duration of the deletion', async () => {
  const clock = testClock(1_000_000);
  let gone = () => {};
  const sealedCache: SealedCache = {
    get: async () => null,
    set: async () => {},
    delete: () => new Promise((resolve) => (gone = resolve)),
    take: async () => null,
  };
  const sessions = makeCookieSessions({ sealedCache, clock });
  const holder = { userId: v7(), scopes: null, platformAdmin: false, csrf: null };
  const { secret } = await sessions.open({ ...holder, token: { id: 't', expiresAt: clock.now() + 60_000 } });
  expect(sessions.isCached(secret)).toBe(true);
  const closing = sessions.close(secret);
  expect(sessions.isCached(secret)).toBe(false);
  gone();
  await closing;
});

it('a session lasts as long as its token, verified by the reference clock, while the service clock is corrected', async () => {
  const entries = new Map<string, string>();
  const sealedCache: SealedCache = {
    get: async (key) => entries.get(key) ?? null,
    set: async (key, value) => void entries.set(key, value),
    delete: async (key) => void entries.delete(key),
    take: async () => null,
  };
  // The service's time is two days ahead of the reference clock, which was set back.
  let reference = 1_000_000;
  const clock = { now: () => reference + 2 * 86_400_000, reference: () => reference };
  const sessions = makeCookieSessions({ sealedCache, clock });
  const holder = { userId: v7(), scopes: null, platformAdmin: false, csrf: null };
  const { secret, until } = await sessions.open({ ...holder, token: { id: 't', expiresAt: reference + 60_000 } });
  expect(until).toBe(reference + 60_000);
  expect(await sessions.find(secret)).not.toBeNull();
  reference += 60_000;
  expect(await sessions.find(secret)).toBeNull();
});

it('a session of an earlier build, which has no id, is identified by its token', async () => {
  const clock = testClock(1_000_000);
  const cache = new MemoryCache(clock);
  const token = { id: 't', expiresAt: clock.now() + 60_000 };
  const set: SealedCache['set'] = (key, value, ttlMs) => {
    const { id, ...earlier } = JSON.parse(value);
    expect(id).toMatch(/^session:/);
    return cache.set(key, JSON.stringify(earlier), ttlMs);
  };
  const holder = { userId: v7(), scopes: null, platformAdmin: false, csrf: null };
  const { secret } = await makeCookieSessions({ sealedCache: { ...sealedCacheOf(cache), set }, clock }).open({
    ...holder,
    token,
  });
  expect(await makeCookieSessions({ sealedCache: cache, clock }).find(secret)).toMatchObject({ ...holder, token });
});

it('a session of a newer build is found with the members that this build knows, and not if it does not know a scope', async () => {
  const clock = testClock(1_000_000);
  const cache = new MemoryCache(clock);
  const holder = { userId: v7(), scopes: null, platformAdmin: false, csrf: null };
  const token = { id: 't', expiresAt: clock.now() + 60_000 };
  const stored = async (change: object): Promise<string> => {
    let written: [string, string] = ['', ''];
    const set = async (key: string, value: string) => {
      written = [key, value];
    };
    const newer = makeCookieSessions({ sealedCache: { ...sealedCacheOf(cache), set }, clock });
    const { secret } = await newer.open({ ...holder, token });
    await cache.set(written[0], JSON.stringify({ ...JSON.parse(written[1]), ...change }), 60_000);
    return secret;
  };
  const older = makeCookieSessions({ sealedCache: cache, clock });
  const found = await older.find(await stored({ added: { by: 'a newer build' } }));
  expect(found).toMatchObject({
    ...holder,
    token: { ...token, id: expect.stringMatching(/^session:/), ancestors: ['t'] },
  });
  expect(found).not.toHaveProperty('added');
  expect(await older.find(await stored({ scopes: ['read:devices', 'read:unknown'] }))).toBeNull();
});

const sealedCacheOf = (cache: MemoryCache): SealedCache => ({
  get: (key) => cache.get(key),
  set: (key, value, ttlMs) => cache.set(key, value, ttlMs),
  take: (key) => cache.take(key),
  delete: (key) => cache.delete(key),
});
