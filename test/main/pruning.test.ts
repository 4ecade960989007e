import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type Pruning, startPruning } from '../../src/main/pruning.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOW = 400 * DAY;
const retentionDays = { commands: 30, journal: 90 } as never;

let running: Pruning | null = null;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  running?.stop();
  vi.useRealTimers();
});

function pruning(
  prune: (...args: never[]) => Promise<void>,
  { prunedAt = null as number | null | (() => number | null) } = {},
) {
  const warnings: string[] = [];
  const removeOrphans = vi.fn(async () => {});
  const state = { trusted: true, correction: 0, stepped: 0 };
  const elapsed = () => performance.now();
  const now = () => NOW + elapsed() + state.stepped;
  running = startPruning(
    { retentionDays },
    {
      store: {
        retention: {
          prune: vi.fn(prune) as never,
          lastPrunedAt: async () => (typeof prunedAt === 'function' ? prunedAt() : prunedAt),
        },
      },
      artifacts: { removeOrphans } as never,
      clock: { now, elapsed, reference: () => now() + state.correction },
      log: { debug() {}, info() {}, warn: (_, message) => warnings.push(message), error() {} },
      isClockTrusted: () => state.trusted,
    },
  );
  return { pruning: running, removeOrphans, warnings, state };
}

it('prunes a minute after the start, and every hour from then on', async () => {
  const prune = vi.fn(async () => {});
  const { removeOrphans } = pruning(prune);
  const startedAt = performance.now();
  expect([prune.mock.calls.length, removeOrphans.mock.calls.length]).toEqual([0, 1]);
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(prune.mock.calls).toEqual([[NOW + startedAt + MINUTE, retentionDays, 500]]);
  await vi.advanceTimersByTimeAsync(59 * MINUTE);
  expect(prune).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect([prune.mock.calls.length, removeOrphans.mock.calls.length]).toEqual([2, 3]);
});

it('prunes once at a time however long it takes, and again after it failed', async () => {
  const ends: ((error: Error) => void)[] = [];
  const prune = vi.fn(() => new Promise<void>((_, reject) => ends.push(reject)));
  const { warnings } = pruning(prune);
  await vi.advanceTimersByTimeAsync(200 * MINUTE);
  expect(prune).toHaveBeenCalledTimes(1);
  ends[0]?.(new Error('gone'));
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(prune).toHaveBeenCalledTimes(2);
  expect(warnings).toEqual(['pruning failed; retrying']);
});

it('prunes what is due by both clocks, while the service is being corrected by less than a minute', async () => {
  const prune = vi.fn(async () => {});
  const { state } = pruning(prune);
  state.correction = -50_000;
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(prune.mock.calls).toEqual([[NOW + performance.now() - 50_000, retentionDays, 500]]);
});

it('prunes nothing while the clock is more than a minute off, and says so', async () => {
  const prune = vi.fn(async () => {});
  const { pruning: kept, state, warnings } = pruning(prune);
  state.trusted = false;
  await vi.advanceTimersByTimeAsync(2 * HOUR);
  expect(prune).not.toHaveBeenCalled();
  expect(kept.suspended()).toBe(true);
  expect(warnings).toEqual(Array(2).fill('pruning suspended: the clock is more than a minute off'));
  state.trusted = true;
  await vi.advanceTimersByTimeAsync(HOUR);
  expect(prune).toHaveBeenCalledTimes(1);
  expect(kept.suspended()).toBe(false);
});

it('prunes at once where the last time is a week ago at most', async () => {
  const prune = vi.fn(async () => {});
  pruning(prune, { prunedAt: NOW - 6 * DAY });
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(prune).toHaveBeenCalledTimes(1);
});

it('waits for 24 hours of running where the last time is longer ago, or the clock is ahead', async () => {
  const prune = vi.fn(async () => {});
  const { pruning: kept, warnings } = pruning(prune, { prunedAt: NOW - 399 * DAY });
  await vi.advanceTimersByTimeAsync(23 * HOUR);
  expect(prune).not.toHaveBeenCalled();
  expect(kept.suspended()).toBe(true);
  expect(warnings).toHaveLength(23);
  expect(warnings[0]).toContain('the last pruning is long ago, or the clock is wrong');
  await vi.advanceTimersByTimeAsync(2 * HOUR);
  expect(prune.mock.calls.length).toBeGreaterThan(0);
  expect(kept.suspended()).toBe(false);
});

it('waits for 24 hours after a step of more than a week, however long the process has run', async () => {
  const pruned: number[] = [];
  const { pruning: kept, state } = pruning(async (...args: unknown[]) => void pruned.push(args[0] as number), {
    prunedAt: () => pruned.at(-1) ?? null,
  });
  await vi.advanceTimersByTimeAsync(30 * HOUR);
  expect(pruned).toHaveLength(30);
  state.stepped = 400 * DAY;
  await vi.advanceTimersByTimeAsync(23 * HOUR);
  expect(pruned).toHaveLength(30);
  expect(kept.suspended()).toBe(true);
  state.stepped = 0;
  await vi.advanceTimersByTimeAsync(HOUR);
  expect(pruned).toHaveLength(31);
  expect(kept.suspended()).toBe(false);
  state.stepped = 400 * DAY;
  await vi.advanceTimersByTimeAsync(26 * HOUR);
  expect(pruned.length).toBeGreaterThan(31);
});

it('goes on after a host was suspended every night', async () => {
  const prune = vi.fn(async () => {});
  const { state } = pruning(prune, { prunedAt: NOW - 30 * DAY });
  for (let night = 0; night < 4; night++) {
    await vi.advanceTimersByTimeAsync(8 * HOUR);
    state.stepped += 16 * HOUR;
  }
  expect(prune).toHaveBeenCalled();
});
