import { describe, expect, it, vi } from 'vitest';
import { LEASE_MS, RenewedLease } from '../../src/domain/lease.ts';

function leaseAt(start = 1_000) {
  const time = { now: start };
  const expired = vi.fn();
  return { time, expired, lease: new RenewedLease(LEASE_MS, () => time.now, expired) };
}

describe('a lease', () => {
  it('is not valid before its start, and reports nothing', async () => {
    const { lease, expired } = leaseAt();
    expect(lease.valid()).toBe(false);
    await Promise.resolve();
    expect(expired).not.toHaveBeenCalled();
  });

  it('lasts 10 s from when a renewal was sent, not from when it was confirmed', () => {
    const { lease, time } = leaseAt();
    lease.begin(7, 1_000);
    expect(lease.epoch).toBe(7);
    time.now = 9_000;
    lease.renewed(3_000);
    time.now = 12_999;
    expect(lease.valid()).toBe(true);
    time.now = 13_000;
    expect(lease.valid()).toBe(false);
  });

  it('is never shortened by a late confirmation', () => {
    const { lease, time } = leaseAt();
    lease.begin(1, 1_000);
    lease.renewed(5_000);
    lease.renewed(2_000);
    time.now = 14_999;
    expect(lease.valid()).toBe(true);
  });

  it('reports its end once, after the check that found it', async () => {
    const { lease, time, expired } = leaseAt();
    lease.begin(1, 1_000);
    time.now = 11_000;
    expect(lease.valid()).toBe(false);
    expect(expired).not.toHaveBeenCalled();
    await Promise.resolve();
    expect(lease.valid()).toBe(false);
    await Promise.resolve();
    expect(expired).toHaveBeenCalledTimes(1);
  });

  it('stays ended when a confirmation arrives after its end', () => {
    const { lease, time } = leaseAt();
    lease.begin(1, 1_000);
    time.now = 11_000;
    expect(lease.valid()).toBe(false);
    lease.renewed(10_900);
    expect(lease.valid()).toBe(false);
  });
});
