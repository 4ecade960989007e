import { expect, it } from 'vitest';
import { Health } from '../../src/services/health.ts';
import { eventually, testClock } from '../support/clock.ts';

it('a slow store gets one counting query at a time', async () => {
  const clock = testClock(1_000_000);
  let pings = 0;
  const counts: ((active: number) => void)[] = [];
  const store = {
    ping: async () => void pings++,
    devices: { countActive: () => new Promise<number>((resolve) => counts.push(resolve)) },
  };
  const health = new Health({
    ...{ store: store as never, cache: { healthy: () => true } as never, clock, redis: false },
    ...{ mqtt: () => 'operational', worker: () => 'operational', clockOffsets: () => null, stopping: () => false },
  });
  const reports = [0, 1, 2].map((n) => {
    clock.advance(n * 1_000);
    return health.report();
  });
  await eventually(() => pings === 3);
  await Promise.resolve();
  expect(counts).toHaveLength(1);
  counts[0]?.(7);
  expect((await Promise.all(reports)).map(({ activeDevices }) => activeDevices)).toEqual([7, 7, 7]);
  clock.advance(1_000);
  const next = health.report();
  await eventually(() => counts.length === 2);
  counts[1]?.(8);
  expect((await next).activeDevices).toBe(8);
});
