import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Pruning } from '../../src/main/pruning.ts';

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
  const begun: number[] = [];
  const removeOrphans = vi.fn(async () => {});
  const dropHistory = vi.fn(async () => {});
  const state = { trusted: true, leader: true, correction: 0, stepped: 0 };
  const elapsed = () => performance.now();
  const now = () => NOW + elapsed() + state.stepped;
  running = new Pruning(
    { retentionDays },
    {
      store: {
        retention: {
          prune: vi.fn(prune) as never,
          begin: async (now) => void begun.push(now),
          lastPrunedAt: async () => (typeof prunedAt === 'function' ? prunedAt() : prunedAt),
        },
      },
      artifacts: { removeOrphans } as never,
      clock: { now, elapsed, reference: () => now() + state.correction },
      log: { debug() {}, info() {}, warn: (_, message) => warnings.push(message), error() {} },
      isClockTrusted: () => state.trusted,
      dropHistory,
      isLeader: () => state.leader,
    },
  );
  return { pruning: running, removeOrphans, dropHistory, warnings, begun, state };
}

it('runs a minute after the start, and then every hour', async () => {
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

it('runs once at a time for any duration, and again after a failure', async () => {
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

it('drops expired history although rows of other tables cannot be deleted', async () => {
  const { dropHistory, warnings } = pruning(() =>
    Promise.reject(new Error('canceling statement due to statement timeout')),
  );
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(dropHistory.mock.calls).toEqual([[NOW + performance.now()]]);
  expect(warnings).toEqual(['pruning failed; retrying']);
});

it('deletes what is due by both clocks while a correction of less than a minute is in progress', async () => {
  const prune = vi.fn(async () => {});
  const { state } = pruning(prune);
  state.correction = -50_000;
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(prune.mock.calls).toEqual([[NOW + performance.now() - 50_000, retentionDays, 500]]);
});

it('deletes nothing while the clock is more than a minute off, and reports it', async () => {
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

it('runs at once if the last run was at most a week ago', async () => {
  const prune = vi.fn(async () => {});
  pruning(prune, { prunedAt: NOW - 6 * DAY });
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(prune).toHaveBeenCalledTimes(1);
});

it('waits for 24 hours of running if the last run was longer ago, or the clock is ahead', async () => {
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

it('waits for 24 hours after a start with a clock that is ahead, if only the start before was recorded', async () => {
  const prune = vi.fn(async () => {});
  const first = pruning(prune);
  await vi.advanceTimersByTimeAsync(MINUTE / 2);
  first.pruning.stop();
  expect(first.begun).toEqual([NOW + performance.now() - MINUTE / 2]);
  const second = pruning(prune, { prunedAt: first.begun[0] as number });
  second.state.stepped = 400 * DAY;
  await vi.advanceTimersByTimeAsync(HOUR);
  expect(prune).not.toHaveBeenCalled();
  expect(second.pruning.suspended()).toBe(true);
});

it('waits for 24 hours after a step of more than a week, for any uptime', async () => {
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

it('continues when a host is suspended every night', async () => {
  const prune = vi.fn(async () => {});
  const { state } = pruning(prune, { prunedAt: NOW - 30 * DAY });
  for (let night = 0; night < 4; night++) {
    await vi.advanceTimersByTimeAsync(8 * HOUR);
    state.stepped += 16 * HOUR;
  }
  expect(prune).toHaveBeenCalled();
});
