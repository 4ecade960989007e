import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { keepPruning } from '../../src/main/pruning.ts';

const MINUTE = 60_000;
const retentionDays = { commands: 30, journal: 90 } as never;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function pruning(prune: () => Promise<void>) {
  const warnings: string[] = [];
  const sweep = vi.fn(async () => {});
  const timer = keepPruning(
    { retentionDays },
    {
      store: { retention: { prune: vi.fn(prune) as never } },
      artifacts: { sweep } as never,
      clock: { now: () => 7 },
      log: { debug() {}, info() {}, warn: (_, message) => warnings.push(message), error() {} },
    },
  );
  return { timer, sweep, warnings };
}

it('prunes a minute after the start, and every hour from then on', async () => {
  const prune = vi.fn(async () => {});
  const { timer, sweep } = pruning(prune);
  expect([prune.mock.calls.length, sweep.mock.calls.length]).toEqual([0, 1]);
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(prune.mock.calls).toEqual([[7, retentionDays, 500]]);
  await vi.advanceTimersByTimeAsync(59 * MINUTE);
  expect(prune).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect([prune.mock.calls.length, sweep.mock.calls.length]).toEqual([2, 3]);
  clearInterval(timer);
});

it('prunes once at a time however long it takes, and again after it failed', async () => {
  const ends: ((error: Error) => void)[] = [];
  const prune = vi.fn(() => new Promise<void>((_, reject) => ends.push(reject)));
  const { timer, warnings } = pruning(prune);
  await vi.advanceTimersByTimeAsync(200 * MINUTE);
  expect(prune).toHaveBeenCalledTimes(1);
  ends[0]?.(new Error('gone'));
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(prune).toHaveBeenCalledTimes(2);
  expect(warnings).toEqual(['old rows are pruned later']);
  clearInterval(timer);
});
