import { describe, expect, it } from 'vitest';
import { TokenBuckets } from '../../../src/edges/mqtt/token-buckets.ts';

describe('a bucket', () => {
  let now = 0;
  const buckets = (perSecond: number, burst: number) => {
    now = 0;
    return new TokenBuckets(perSecond, burst, () => now);
  };

  it('belongs to its payer, and is forgotten when it is full again', () => {
    const all = buckets(10, 10);
    all.limitFor('one').take();
    for (let n = 0; n < 10; n++) all.limitFor('two').take();
    now = 1_000;
    all.limitFor('three');
    expect(all.size).toBe(1);
  });

  it('is shared by two connections of a payer if the first was idle when it was forgotten', () => {
    const all = buckets(10, 10);
    const first = all.limitFor('one');
    now = 5_000;
    all.limitFor('two');
    expect(all.size).toBe(1);
    for (let n = 0; n < 10; n++) expect(first.take()).toBe(0);
    const second = all.limitFor('one');
    expect([first.take(), second.take()]).toEqual([100, 100]);
  });
});
