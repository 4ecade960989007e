import { describe, expect, it } from 'vitest';
import { backoffDelay } from '../../src/domain/backoff.ts';
import { fc } from '../support/properties.ts';

const limits = fc
  .tuple(fc.integer({ min: 1, max: 60_000 }), fc.integer({ min: 0, max: 600_000 }))
  .map(([firstMs, above]) => ({ firstMs, maxMs: firstMs + above }));
const failures = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 41, max: Number.MAX_SAFE_INTEGER }));
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('a back-off', () => {
  it('doubles from the first delay up to the limit, and stays there', () => {
    const delays = [1, 2, 3, 6, 7, 1_000, Number.MAX_SAFE_INTEGER].map((count) =>
      backoffDelay(count, { firstMs: 500, maxMs: 30_000 }),
    );
    expect(delays).toEqual([500, 1_000, 2_000, 16_000, 30_000, 30_000, 30_000]);
  });

  it('never shortens with another failure, and is never below the first delay or above the limit', () => {
    fc.assert(
      fc.property(failures, limits, (count, { firstMs, maxMs }) => {
        const delay = backoffDelay(count, { firstMs, maxMs });
        expect(delay).toBeGreaterThanOrEqual(firstMs);
        expect(delay).toBeLessThanOrEqual(maxMs);
        expect(backoffDelay(count + 1, { firstMs, maxMs })).toBeGreaterThanOrEqual(delay);
      }),
    );
  });

  it('randomizes the part of a delay that its jitter sets', () => {
    fc.assert(
      fc.property(failures, limits, random, (count, within, drawn) => {
        const whole = backoffDelay(count, within);
        const half = backoffDelay(count, within, 'half', () => drawn);
        expect(half).toBeGreaterThanOrEqual(whole / 2);
        expect(half).toBeLessThanOrEqual(whole);
        const full = backoffDelay(count, within, 'full', () => drawn);
        expect(full).toBeCloseTo(whole * drawn, 6);
        expect(full).toBeLessThanOrEqual(whole);
        expect(half).toBeCloseTo((whole + full) / 2, 6);
      }),
    );
  });
});
