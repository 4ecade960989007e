import { describe, expect, it } from 'vitest';
import { TokenBucket } from '../../src/domain/token-bucket.ts';
import { fc } from '../support/properties.ts';

let now = 0;
function bucket(perSecond: number, burst: number, maxDebt = burst): TokenBucket {
  now = 0;
  return new TokenBucket({ perMs: perSecond / 1000, burst, maxDebt, ticks: () => now });
}

const rates = fc.tuple(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 1, max: 50 }));
const pauses = fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 200 });

describe('a token bucket', () => {
  it('allows its burst at once, and then reports when the next token is available', () => {
    const one = bucket(50, 3);
    expect([one.take(), one.take(), one.take(), one.take()]).toEqual([0, 0, 0, 20]);
    expect([one.waitMs, one.isFull]).toEqual([20, false]);
    now = 19;
    expect(one.take()).toBe(1);
    now = 20;
    expect([one.waitMs, one.take(), one.take()]).toEqual([0, 0, 20]);
    now = 10_000;
    expect(one.isFull).toBe(true);
    expect([1, 2, 3, 4].map(() => one.take())).toEqual([0, 0, 0, 20]);
  });

  it('can be in debt, up to its limit', () => {
    const one = bucket(1, 2);
    expect([1, 2, 3, 4, 5, 6].map(() => one.reserve())).toEqual([0, 0, 1_000, 2_000, 2_000, 2_000]);
    now = 2_000;
    expect(one.reserve()).toBe(1_000);
    const unlimited = bucket(1, 2, Number.POSITIVE_INFINITY);
    expect([unlimited.reserve(5), unlimited.reserve(2.5), unlimited.waitMs]).toEqual([3_000, 5_500, 6_500]);
  });

  it('never gives more than its burst and what its rate gives in the time since', () => {
    fc.assert(
      fc.property(rates, pauses, ([perSecond, burst], gaps) => {
        const one = bucket(perSecond, burst);
        let taken = 0;
        for (const gap of gaps) {
          now += gap;
          if (one.take() === 0) taken += 1;
          expect(taken).toBeLessThanOrEqual(burst + (now * perSecond) / 1000 + 1e-6);
        }
      }),
    );
  });

  it('has a token after the wait that it reported, and none a millisecond before', () => {
    fc.assert(
      fc.property(rates, pauses, ([perSecond, burst], gaps) => {
        const one = bucket(perSecond, burst);
        for (const gap of gaps) {
          now += gap;
          const wait = one.take();
          if (wait === 0) continue;
          // A microsecond more than rounding errors of the sums.
          now += wait - 1 - 1e-3;
          expect(one.waitMs).toBeGreaterThan(0);
          now += 1 + 2e-3;
          expect(one.take()).toBe(0);
        }
      }),
    );
  });
});
