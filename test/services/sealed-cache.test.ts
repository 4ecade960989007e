import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { makeSealer } from '../../src/domain/sealing.ts';
import { makeSealedCache, type SealedCache } from '../../src/services/sealed-cache.ts';
import { testClock } from '../support/clock.ts';
import { MemoryCache } from '../support/memory-cache.ts';

let cache: MemoryCache;
let sealedCache: SealedCache;
beforeEach(() => {
  cache = new MemoryCache(testClock());
  sealedCache = makeSealedCache(cache, makeSealer({ current: randomBytes(32) }));
});

describe('a sealed entry', () => {
  it('is kept in the cache until it is taken or deleted', async () => {
    await sealedCache.set('a', 'ada', 1_000);
    expect([await sealedCache.get('a'), await sealedCache.get('b')]).toEqual(['ada', null]);
    expect([await sealedCache.take('a'), await sealedCache.take('a')]).toEqual(['ada', null]);
    await sealedCache.set('a', 'ada', 1_000);
    await sealedCache.delete('a');
    expect(await sealedCache.get('a')).toBeNull();
  });

  it('is not readable in the cache', async () => {
    await sealedCache.set('a', 'ada', 1_000);
    expect(await cache.get('a')).not.toContain('ada');
  });

  it.each(['get', 'take'] as const)(
    'is not returned by %s if it was written by someone without the key',
    async (how) => {
      for (const forged of [
        '{"platformAdmin":true}',
        '',
        makeSealer({ current: randomBytes(32) }).seal('ada', { purpose: 'cache entries', aad: 'cache a' }),
      ]) {
        await cache.set('a', forged, 1_000);
        expect(await sealedCache[how]('a')).toBeNull();
      }
    },
  );

  it('is not returned under another key', async () => {
    await sealedCache.set('a', 'ada', 1_000);
    await cache.set('b', (await cache.get('a')) as string, 1_000);
    expect(await sealedCache.get('b')).toBeNull();
  });

  it('remains readable after a change of the master key', async () => {
    const [old, next] = [randomBytes(32), randomBytes(32)];
    await makeSealedCache(cache, makeSealer({ current: old })).set('a', 'ada', 1_000);
    expect(await makeSealedCache(cache, makeSealer({ current: next, previous: old })).get('a')).toBe('ada');
    expect(await makeSealedCache(cache, makeSealer({ current: next })).get('a')).toBeNull();
  });
});
