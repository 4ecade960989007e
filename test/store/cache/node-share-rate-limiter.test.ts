import { describe, expect, it } from 'vitest';
import { unlimitedLease } from '../../../src/domain/lease.ts';
import { fixedRates, makeRequestRateLimiter } from '../../../src/edges/shared/rate-limiter.ts';
import type { PayerKind, RateLimiter } from '../../../src/store/contract/rate-limiter.ts';
import { openRateLimiter } from '../../../src/store/open.ts';
import { testClock } from '../../support/clock.ts';

const clock = testClock();
const open = (nodes: () => number): RateLimiter => openRateLimiter({ redisUrl: null }, clock, unlimitedLease, nodes);

/** Number of requests that are admitted. */
function admitted(rates: RateLimiter, kind: PayerKind, limit: number): number {
  let count = 0;
  while (count <= 2 * limit && rates.take(kind, 'one', limit).ok) count += 1;
  return count;
}

describe('nodes without common counters', () => {
  it.each(['address', 'sign-in'] as const)('divide the limit of a kind: %s', (kind) => {
    for (const nodes of [1, 2, 3, 7, 16]) {
      const counts = Array.from({ length: nodes }, () =>
        admitted(
          open(() => nodes),
          kind,
          600,
        ),
      );
      const sum = counts.reduce((a, b) => a + b);
      expect(sum).toBeLessThanOrEqual(600);
      expect(sum).toBeGreaterThan(600 - nodes);
    }
  });

  it.each(['tenant', 'credential', 'user', 'session', 'client'] as const)(
    'grant the whole limit of a kind whose requests may all be at one node: %s',
    (kind) => {
      const rates = open(() => 4);
      expect(admitted(rates, kind, 600)).toBe(600);
    },
  );

  it('follow the number of nodes', () => {
    let nodes = 2;
    const rates = open(() => nodes);
    expect(rates.take('address', 'one', 100).remaining).toBe(98);
    nodes = 10;
    expect(rates.take('address', 'one', 100).remaining).toBe(88);
    nodes = 1;
    expect(rates.take('address', 'one', 100).remaining).toBe(87);
  });

  it('grant one request each if there are more nodes than the limit', () => {
    expect(
      admitted(
        open(() => 50),
        'address',
        10,
      ),
    ).toBe(1);
    expect(open(() => 50).take('address', 'one', 10, 11).ok).toBe(false);
  });

  it('refuse failed sign-ins beyond their share of the limit', () => {
    const services = { actors: {}, rates: open(() => 4), settings: { rateLimits: {}, defaultTier: 'free' } };
    const limiter = makeRequestRateLimiter(services as never, { guard: (work: unknown) => work } as never, fixedRates);
    let refusedAt = 0;
    for (let n = 1; refusedAt === 0; n++) if (limiter.recordFailedSignIn('192.0.2.1') !== null) refusedAt = n;
    expect(refusedAt).toBe(fixedRates.signIns / 4 + 1);
  });
});
