import { describe, expect, it } from 'vitest';
import { MemoryCacheEntries } from '../../../src/store/cache/memory-cache-entries.ts';
import { testClock } from '../../support/clock.ts';

describe('a cache in memory', () => {
  it('keeps an entry until just before its expiry by the given clock', async () => {
    const clock = testClock();
    const cache = new MemoryCacheEntries(clock);
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

  it('evicts the least recently used entry of one kind, and none of another', async () => {
    const cache = new MemoryCacheEntries(testClock(), { maxEntries: 2 });
    for (const key of ['session:1', 'handshake:1', 'handshake:2', 'handshake:3']) await cache.set(key, 'x', 1_000);
    expect([...cache.keys()]).toEqual(expect.arrayContaining(['session:1', 'handshake:2', 'handshake:3']));
    expect(cache.sizes().cache_entries).toBe(3);
  });
});
