import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { unlimitedLease } from '../../../src/domain/lease.ts';
import { MemoryRateLimiter } from '../../../src/store/cache/memory-rate-limiter.ts';
import { RedisRateLimiter } from '../../../src/store/cache/redis-rate-limiter.ts';
import type { RateLimiter } from '../../../src/store/contract/rate-limiter.ts';
import { openRateLimiter } from '../../../src/store/open.ts';
import { eventually, testClock } from '../../support/clock.ts';
import { fc } from '../../support/properties.ts';
import { slow } from '../../support/slow.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

const redisUrl = inject('redisUrl');
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const clock = testClock();

function open(url: string | null): RateLimiter {
  const rates = openRateLimiter({ redisUrl: url }, clock, unlimitedLease);
  closing.push(() => rates.close());
  return rates;
}

const backends = [{ name: 'memory', url: null }, ...(redisUrl === null ? [] : [{ name: 'Redis', url: redisUrl }])];

describe.each(backends)('rate limits in $name', ({ url }) => {
  it('allow available requests, and report the remaining number and the reset time', () => {
    const rates = open(url);
    const id = randomUUID();
    expect(rates.peek('tenant', id, 3)).toEqual({ ok: true, remaining: 3, resetMs: 60_000 });
    expect(rates.take('tenant', id, 3)).toEqual({ ok: true, remaining: 2, resetMs: 60_000 });
    clock.advance(10_000);
    expect(rates.take('tenant', id, 3, 2)).toEqual({ ok: true, remaining: 0, resetMs: 50_000 });
    expect(rates.take('tenant', id, 3)).toEqual({ ok: false, remaining: 0, resetMs: 50_000 });
    expect(rates.peek('tenant', id, 3)).toEqual({ ok: false, remaining: 0, resetMs: 50_000 });
  });

  it('hold until just before the end of the minute, and reset then', () => {
    const rates = open(url);
    const id = randomUUID();
    rates.take('user', id, 1);
    clock.advance(59_999);
    expect(rates.take('user', id, 1)).toEqual({ ok: false, remaining: 0, resetMs: 1 });
    clock.advance(1);
    expect(rates.take('user', id, 1)).toEqual({ ok: true, remaining: 0, resetMs: 60_000 });
  });

  it('apply a changed limit at once, and do not count refused requests', () => {
    const rates = open(url);
    const id = randomUUID();
    for (let n = 0; n < 5; n++) rates.take('tenant', id, 2);
    expect(rates.take('tenant', id, 10)).toMatchObject({ ok: true, remaining: 7 });
    expect(rates.take('tenant', id, 1)).toMatchObject({ ok: false, remaining: 0 });
  });

  it('are separate for each payer and each kind', () => {
    const rates = open(url);
    const id = randomUUID();
    rates.take('tenant', id, 1);
    expect(rates.take('user', id, 1).ok).toBe(true);
    expect(rates.take('tenant', randomUUID(), 1).ok).toBe(true);
  });

  it('charge all of a cost or nothing', () => {
    const rates = open(url);
    const id = randomUUID();
    rates.take('tenant', id, 5, 3);
    expect(rates.take('tenant', id, 5, 3)).toMatchObject({ ok: false, remaining: 2 });
    expect(rates.take('tenant', id, 5, 2)).toMatchObject({ ok: true, remaining: 0 });
  });
});

describe('rate limits in memory', () => {
  it('never allow more than the limit in a window, for any sequence of requests', () => {
    const steps = fc.array(fc.record({ wait: fc.nat(30_000), cost: fc.integer({ min: 1, max: 4 }) }), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 10 }), (requested, limit) => {
        const time = testClock();
        const rates = new MemoryRateLimiter(time);
        let opened = Number.NEGATIVE_INFINITY;
        let given = 0;
        for (const { wait, cost } of requested) {
          time.advance(wait);
          if (time.now() - opened >= 60_000) {
            opened = time.now();
            given = 0;
          }
          const before = given;
          const { ok, remaining, resetMs } = rates.take('tenant', 'one', limit, cost);
          if (ok) given += cost;
          expect(ok).toBe(before + cost <= limit);
          expect(remaining).toBe(limit - given);
          expect(resetMs).toBe(opened + 60_000 - time.now());
        }
      }),
    );
  });

  it('are bounded under a flood of addresses, which evicts no other client', () => {
    const time = testClock();
    const rates = new MemoryRateLimiter(time, 100);
    rates.take('tenant', 'one', 1);
    for (let n = 0; n < 1_000; n++) rates.take('address', `${n}`, 1);
    expect(rates.size('address')).toBe(100);
    expect(rates.take('tenant', 'one', 1).ok).toBe(false);
    time.advance(60_000);
    rates.take('address', 'late', 1);
    expect(rates.size('address')).toBe(1);
  });

  it('end a window that would exceed a minute because the clock was set back', () => {
    const time = testClock();
    const rates = new MemoryRateLimiter(time);
    rates.take('tenant', 'one', 1);
    time.advance(-3_600_000);
    expect(rates.take('tenant', 'one', 1)).toEqual({ ok: true, remaining: 0, resetMs: 60_000 });
  });
});

/** Resolves when a new process reads from Redis that the whole limit is used. */
const copied = (id: string, limit: number): Promise<boolean> =>
  eventually(async () => {
    const next = open(redisUrl) as RedisRateLimiter;
    await eventually(() => next.connected);
    next.take('tenant', id, limit, 0);
    return eventually(() => !next.peek('tenant', id, limit).ok, 200);
  });

describe.runIf(redisUrl)('rate limits with Redis', () => {
  it('continue in the next process where the previous one stopped', async () => {
    const id = randomUUID();
    const before = new RedisRateLimiter(redisUrl ?? '', clock, unlimitedLease);
    for (let n = 0; n < 4; n++) before.take('tenant', id, 5);
    clock.advance(20_000);
    await eventually(() => before.connected);
    await before.close();
    const after = open(redisUrl);
    expect(after.take('tenant', id, 5).ok).toBe(true);
    await eventually(() => !after.peek('tenant', id, 5).ok);
    const { ok, remaining, resetMs } = after.take('tenant', id, 5);
    expect([ok, remaining]).toEqual([false, 0]);
    expect(resetMs).toBeGreaterThan(30_000);
    expect(resetMs).toBeLessThanOrEqual(40_000);
  });

  it('are copied while the process runs, so that a kill loses little', async () => {
    const id = randomUUID();
    const first = open(redisUrl);
    first.take('tenant', id, 5, 5);
    await copied(id, 5);
  });

  it.each(['cut', 'silence'] as const)('continue in the process during a Redis outage (%s)', async (how) => {
    const proxy = await startTcpProxy(redisUrl ?? '');
    closing.push(() => proxy.close());
    const rates = new RedisRateLimiter(proxy.proxiedUrl(redisUrl ?? ''), clock, unlimitedLease);
    closing.push(() => rates.close());
    await eventually(() => rates.connected);
    const id = randomUUID();
    rates.take('tenant', id, 3);
    proxy[how]();
    expect(rates.take('tenant', id, 3)).toMatchObject({ ok: true, remaining: 1 });
    expect(rates.take('tenant', id, 3)).toMatchObject({ ok: true, remaining: 0 });
    expect(rates.take('tenant', id, 3).ok).toBe(false);
    proxy.restore();
    await copied(id, 3);
  });

  it('repeat requests that Redis did not answer, and keep its earlier counts', async () => {
    const id = randomUUID();
    const before = new RedisRateLimiter(redisUrl ?? '', clock, unlimitedLease);
    await eventually(() => before.connected);
    before.take('tenant', id, 5, 5);
    await before.close();
    const proxy = await startTcpProxy(redisUrl ?? '');
    closing.push(() => proxy.close());
    const after = new RedisRateLimiter(proxy.proxiedUrl(redisUrl ?? ''), clock, unlimitedLease);
    closing.push(() => after.close());
    await eventually(() => after.connected);
    proxy.silence();
    expect(after.take('tenant', id, 5).ok).toBe(true);
    await new Promise(setImmediate);
    proxy.restore();
    await eventually(() => !after.peek('tenant', id, 5).ok);
  });

  it('close quickly, for any duration of a Redis outage', slow, async () => {
    const proxy = await startTcpProxy(redisUrl ?? '');
    closing.push(() => proxy.close());
    const rates = new RedisRateLimiter(proxy.proxiedUrl(redisUrl ?? ''), clock, unlimitedLease);
    await eventually(() => rates.connected);
    proxy.silence();
    const since = performance.now();
    await eventually(() => {
      rates.take('address', randomUUID(), 5);
      return performance.now() - since > 2_500;
    });
    // After half a second, the timeout of one command; without it this would not end.
    await rates.close();
  });
});
