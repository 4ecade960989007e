import { describe, expect, it, vi } from 'vitest';
import { newApiKey } from '../../src/domain/api-key.ts';
import { ApiKeyCache } from '../../src/services/api-key-cache.ts';
import { StoreLiveness } from '../../src/services/store-liveness.ts';
import { type ApiKey, StoreUnavailable } from '../../src/store/contract.ts';
import { newId } from '../support/actor-commits.ts';
import { withChecksum } from '../support/api-keys.ts';
import { testClock } from '../support/clock.ts';
import { MemoryStore } from '../support/memory-store.ts';

const away = () => {
  throw new StoreUnavailable('away');
};

async function setUp(more: Partial<ApiKey> = {}) {
  const clock = testClock();
  const store = new MemoryStore();
  const warn = vi.fn();
  const log = { debug() {}, info() {}, warn, error() {} };
  const cache = new ApiKeyCache(store, { clock, log, liveness: new StoreLiveness(store) });
  const { key: text, prefix, hash } = newApiKey();
  const [tenantId, userId] = [newId(), newId()];
  const subject = { iss: 'urn:test', sub: userId, email: null, emailVerified: false, createdAt: 0 };
  await store.identity.upsertUser({ id: userId, ...subject });
  const key: ApiKey = {
    ...{ prefix, hash, tenantId, userId, name: 'x', scopes: [], roleCap: 'admin' },
    ...{ createdAt: 0, lastUsedAt: null, expiresAt: null, revokedAt: null, restriction: null },
    ...{ graceUntil: null, replacedBy: null, replaces: null },
    ...more,
  };
  await store.keys.insert(key);
  const find = vi.spyOn(store.keys, 'find');
  const flushUse = vi.spyOn(store.keys, 'flushUse');
  return { clock, store, cache, key, text, prefix, warn, find, flushUse };
}

describe('a presented key', () => {
  it('is verified over its whole text, and looked up once for concurrent requests', async () => {
    const { cache, key, text, find } = await setUp();
    expect(await Promise.all([1, 2, 3].map(() => cache.verify(text)))).toEqual([key, key, key]);
    expect(await cache.verify(withChecksum(`${text.slice(0, -7)}_`))).toBeNull();
    expect(await cache.verify(withChecksum(`${text.slice(0, 13)}${'0'.repeat(43)}`))).toBeNull();
    expect(find).toHaveBeenCalledTimes(1);
    expect(await cache.verify('a token')).toBeNull();
    expect(await cache.verify(`tk_${'x'.repeat(60)}`)).toBeNull();
    expect(find).toHaveBeenCalledTimes(1);
  });

  it('is valid until the moment of its expiry', async () => {
    const { cache, clock, text, prefix } = await setUp({ expiresAt: testClock().now() + 10 });
    clock.advance(9);
    expect([(await cache.verify(text))?.prefix, await cache.isValid(prefix)]).toEqual([prefix, true]);
    clock.advance(1);
    expect([await cache.verify(text), await cache.isValid(prefix)]).toEqual([null, false]);
  });

  it('is invalid after its revocation, for any earlier read', async () => {
    const { cache, store, text, prefix } = await setUp();
    await cache.verify(text);
    await store.keys.revoke(prefix, 1);
    cache.invalidate(prefix);
    expect([await cache.verify(text), await cache.isValid(prefix), await cache.isValid('unknown0')]).toEqual([
      null,
      false,
      false,
    ]);
  });

  it('that is revoked during a read is not cached as it was', async () => {
    const { cache, store, text, prefix, find } = await setUp();
    const reading = cache.verify(text);
    cache.invalidate(prefix);
    await reading;
    await store.keys.revoke(prefix, 1);
    expect(await cache.verify(text)).toBeNull();
    expect(find).toHaveBeenCalledTimes(2);
  });

  it('is looked up again after a store outage', async () => {
    const { cache, store, text, prefix } = await setUp();
    store.failCalls = away;
    await expect(cache.verify(text)).rejects.toBeInstanceOf(StoreUnavailable);
    store.failCalls = null;
    expect((await cache.verify(text))?.prefix).toBe(prefix);
  });
});

describe('the last use', () => {
  it('is written in one batch, the newest of each key, and only if there is one', async () => {
    const { cache, prefix, flushUse } = await setUp();
    await cache.flush();
    for (const at of [1, 2, 3]) cache.recordUse(prefix, at);
    cache.recordUse('another0', 2);
    expect(cache.lastUse(prefix)).toBe(3);
    await cache.flush();
    await cache.flush();
    expect(flushUse.mock.calls).toEqual([
      [
        [
          { prefix, usedAt: 3 },
          { prefix: 'another0', usedAt: 2 },
        ],
      ],
    ]);
  });

  it('that could not be written is written later, unless there is a newer one', async () => {
    const { cache, store, prefix, warn } = await setUp();
    cache.recordUse(prefix, 1);
    cache.recordUse('another0', 1);
    store.failCalls = away;
    const failing = cache.flush();
    cache.recordUse(prefix, 2);
    await failing;
    expect(warn).toHaveBeenCalledTimes(1);
    store.failCalls = null;
    await cache.close();
    expect(store.apiKeys.get(prefix)?.lastUsedAt).toBe(2);
  });

  it('is written automatically every five seconds', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      const { cache, prefix, flushUse } = await setUp();
      cache.recordUse(prefix, 1);
      await vi.advanceTimersByTimeAsync(4_999);
      expect(flushUse).not.toHaveBeenCalled();
      await vi.advanceTimersByTimeAsync(1);
      expect(flushUse).toHaveBeenCalledTimes(1);
      await cache.close();
    } finally {
      vi.useRealTimers();
    }
  });

  it('is not written by a process that lost its lease', async () => {
    const { cache, prefix, flushUse } = await setUp();
    cache.recordUse(prefix, 1);
    cache.discardPending();
    await cache.close();
    expect(flushUse).not.toHaveBeenCalled();
  });
});
