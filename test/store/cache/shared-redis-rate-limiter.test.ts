import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { LEASE_MS, type Lease, RenewedLease, unlimitedLease } from '../../../src/domain/lease.ts';
import { PREFIX } from '../../../src/store/cache/redis-connection.ts';
import { SharedRedisRateLimiter } from '../../../src/store/cache/shared-redis-rate-limiter.ts';
import { type PayerKind, RATE_WINDOW_MS, type RateLimiter } from '../../../src/store/contract/rate-limiter.ts';
import { eventually, testClock } from '../../support/clock.ts';
import { slow } from '../../support/slow.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

const redisUrl = inject('redisUrl') ?? '';
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
const clock = testClock();
const LIMIT = 60;

async function open(nodes: number, { url = redisUrl, lease = unlimitedLease }: { url?: string; lease?: Lease } = {}) {
  const rates = new SharedRedisRateLimiter(url, clock, lease, () => nodes);
  closing.push(() => rates.close());
  await eventually(() => rates.connected);
  return rates;
}

/** Number of requests that are admitted before one is refused. */
function burst(rates: RateLimiter, kind: PayerKind, id: string, limit = LIMIT): number {
  let count = 0;
  while (count <= 2 * limit && rates.take(kind, id, limit).ok) count += 1;
  return count;
}

describe.runIf(redisUrl)('nodes with common counters in Redis', () => {
  it('together grant the limit', async () => {
    const nodes = await Promise.all([open(3), open(3), open(3)]);
    const id = randomUUID();
    let sum = 0;
    for (let round = 0; round < 40; round++) {
      for (const rates of nodes) sum += burst(rates, 'address', id);
      await Promise.all(nodes.map((rates) => rates.sync()));
      await Promise.all(nodes.map((rates) => rates.sync()));
    }
    expect(sum).toBeGreaterThanOrEqual(LIMIT);
    expect(sum).toBeLessThan(2 * LIMIT);
    expect(nodes.map((rates) => rates.take('address', id, LIMIT).ok)).toEqual([false, false, false]);
  });

  it('know the charges of each other after the next request and exchange', async () => {
    const [one, two] = await Promise.all([open(2), open(2)]);
    const id = randomUUID();
    expect(one.take('sign-in', id, LIMIT, 50).ok).toBe(true);
    await one.sync();
    expect(two.take('sign-in', id, LIMIT).remaining).toBe(LIMIT - 1);
    await two.sync();
    expect(two.peek('sign-in', id, LIMIT).remaining).toBe(LIMIT - 51);
    expect(two.take('sign-in', id, LIMIT, 10).ok).toBe(false);
    expect(one.peek('sign-in', id, LIMIT).remaining).toBe(LIMIT - 50);
  });

  it('grant a burst at one node up to its share, and the rest after the next exchange', async () => {
    const rates = await open(4);
    const id = randomUUID();
    expect(burst(rates, 'address', id)).toBe(LIMIT / 4);
    expect(rates.take('address', id, LIMIT)).toMatchObject({ ok: false, remaining: 45, resetMs: 250 });
    await rates.sync();
    expect(burst(rates, 'address', id)).toBe(Math.ceil(45 / 4));
    expect(burst(rates, 'tenant', id)).toBe(LIMIT);
  });

  it('end a window at the same time', async () => {
    const [one, two] = await Promise.all([open(2), open(2)]);
    const id = randomUUID();
    one.take('user', id, LIMIT);
    await one.sync();
    const server = new Redis(redisUrl);
    closing.push(async () => server.disconnect());
    await server.pexpire(`${PREFIX}rate user ${id}`, 20_000);
    two.take('user', id, LIMIT);
    await two.sync();
    const { resetMs } = two.peek('user', id, LIMIT);
    expect(resetMs).toBeGreaterThan(10_000);
    expect(resetMs).toBeLessThanOrEqual(20_000);
  });

  it('continue the window of a tenant at its next owner', async () => {
    const [before, after] = await Promise.all([open(2), open(2)]);
    const id = randomUUID();
    expect(burst(before, 'tenant', id)).toBe(LIMIT);
    await before.sync();
    expect(after.take('tenant', id, LIMIT).ok).toBe(true);
    await after.sync();
    expect(after.take('tenant', id, LIMIT).ok).toBe(false);
  });

  it.each(['cut', 'silence'] as const)('each grant their share while Redis is away (%s)', slow, async (how) => {
    const proxy = await startTcpProxy(redisUrl);
    closing.push(() => proxy.close());
    const rates = await open(4, { url: proxy.proxiedUrl(redisUrl) });
    proxy[how]();
    const id = randomUUID();
    let sum = 0;
    for (let n = 0; n < 3; n++) {
      sum += burst(rates, 'address', id);
      await rates.sync();
    }
    expect(sum).toBe(LIMIT / 4);
    proxy.restore();
    await eventually(async () => {
      await rates.sync();
      return rates.take('address', id, LIMIT).ok;
    });
  });

  it('forget charges whose window has ended while Redis accepts no writes', slow, async () => {
    const server = new Redis(redisUrl);
    closing.push(async () => server.disconnect());
    const user = `reader-${randomUUID()}`;
    await server.acl('SETUSER', user, 'on', 'nopass', '~*', '+@all', '-set', '-incrby');
    closing.push(async () => void (await server.acl('DELUSER', user)));
    const url = new URL(redisUrl);
    url.username = user;
    url.password = 'any';
    const rates = await open(2, { url: url.href });
    const many = 12_000;
    for (let n = 0; n < many; n++) rates.take('address', `${n}`, LIMIT);
    await rates.sync();
    expect([rates.connected, rates.sizes().redis_rates_unsent]).toEqual([true, many]);
    clock.advance(RATE_WINDOW_MS);
    rates.take('address', 'later', LIMIT);
    await rates.sync();
    expect([rates.connected, rates.sizes().redis_rates_unsent]).toEqual([true, 1]);
  });

  it('send nothing once the lease of the process has ended', async () => {
    let now = 0;
    const lease = new RenewedLease(
      LEASE_MS,
      () => now,
      () => {},
    );
    lease.begin(1, now);
    const rates = await open(2, { lease });
    const id = randomUUID();
    now += LEASE_MS;
    rates.take('user', id, LIMIT);
    await rates.sync();
    const server = new Redis(redisUrl);
    closing.push(async () => server.disconnect());
    expect(await server.get(`${PREFIX}rate user ${id}`)).toBeNull();
  });
});
