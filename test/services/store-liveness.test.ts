import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StoreLiveness } from '../../src/services/store-liveness.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';

const TIMEOUT_MS = 20;
const never = new Promise<never>(() => {});
const later = (milliseconds: number) => new Promise<string>((resolve) => setTimeout(resolve, milliseconds, 'done'));

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('waiting for the store', () => {
  it('ends with the work, and sends no ping if the work is quick', async () => {
    let pings = 0;
    const liveness = new StoreLiveness({ ping: async () => void pings++ }, TIMEOUT_MS);
    expect(await liveness.guard(Promise.resolve(7))).toBe(7);
    await expect(liveness.guard(Promise.reject(new Error('boom')))).rejects.toThrow('boom');
    await vi.advanceTimersByTimeAsync(2 * TIMEOUT_MS);
    expect(pings).toBe(0);
  });

  it('continues as long as the store answers', async () => {
    let pings = 0;
    const liveness = new StoreLiveness({ ping: async () => void pings++ }, TIMEOUT_MS);
    const work = liveness.guard(later(5.5 * TIMEOUT_MS));
    await vi.advanceTimersByTimeAsync(6 * TIMEOUT_MS);
    expect(await work).toBe('done');
    expect(pings).toBe(5);
  });

  it('ends when the store does not answer, with one ping for all waiting requests', async () => {
    let pings = 0;
    const ping = async () => {
      pings++;
      await later(TIMEOUT_MS);
      throw new Error('away');
    };
    const liveness = new StoreLiveness({ ping }, TIMEOUT_MS);
    const waiting = Promise.allSettled([liveness.guard(never), liveness.guard(never), liveness.guard(never)]);
    await vi.advanceTimersByTimeAsync(2 * TIMEOUT_MS);
    const outcomes = await waiting;
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(StoreUnavailable) });
    }
    expect(pings).toBe(1);
  });
});
