import { describe, expect, it } from 'vitest';
import { ShardOperations } from '../../src/actors/shard-operations.ts';
import { systemClock } from '../../src/domain/clock.ts';
import { testClock } from '../support/clock.ts';

const LONG_MS = 8_000;

describe('the operations of a shard', () => {
  it('are waited for, whatever runs in other shards', async () => {
    const operations = new ShardOperations();
    const [first, second] = [operations.begin(1), operations.begin(1)];
    operations.begin(2);
    let ended = false;
    const waiting = operations.whenEnded(new Set([1, 3]), systemClock, LONG_MS).then((result) => {
      ended = true;
      return result;
    });
    first();
    first();
    expect(await operations.whenEnded(new Set([1]), systemClock, 0)).toBe(false);
    expect(ended).toBe(false);
    second();
    expect(await waiting).toBe(true);
    expect(await operations.whenEnded(new Set([2]), systemClock, 0)).toBe(false);
  });

  it('are waited for until the time has passed', async () => {
    const clock = testClock();
    const operations = new ShardOperations();
    operations.begin(1);
    const waiting = operations.whenEnded(new Set([1]), clock, LONG_MS);
    clock.advance(LONG_MS);
    expect(await waiting).toBe(false);
  });

  it('are interrupted in these shards alone, and not after their end', () => {
    const operations = new ShardOperations();
    const interrupted: string[] = [];
    operations.begin(1, () => interrupted.push('first'));
    operations.begin(1);
    operations.begin(2, () => interrupted.push('other shard'));
    operations.begin(1, () => interrupted.push('ended'))();
    operations.interrupt(new Set([1]));
    expect(interrupted).toEqual(['first']);
  });
});
