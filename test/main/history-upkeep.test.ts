import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { defaultHistoryRetention } from '../../src/domain/history/retention.ts';
import { HistoryUpkeep } from '../../src/main/history-upkeep.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOW = 400 * DAY;

let running: HistoryUpkeep | null = null;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(async () => {
  await running?.stop();
  vi.useRealTimers();
});

function upkeep() {
  const state = { leader: true, progress: { compactedBefore: NOW, openFrom: null as number | null } };
  const warnings: string[] = [];
  const nothing = async () => {};
  const compactBusy = vi.fn(nothing);
  const sweep = vi.fn(nothing);
  const makePartitions = vi.fn(async (_today: number) => 0);
  const dropPartitions = vi.fn(async () => 0);
  running = new HistoryUpkeep({
    history: { makePartitions, dropPartitions },
    compaction: { compactBusy, sweep, progress: async () => state.progress, stop() {} },
    retention: defaultHistoryRetention,
    clock: { now: () => NOW },
    log: {
      debug() {},
      info() {},
      warn: (_, message) => warnings.push(message),
      error: (_, message) => warnings.push(message),
    },
    isLeader: () => state.leader,
  });
  return { upkeep: running, state, warnings, compactBusy, sweep, makePartitions, dropPartitions };
}

it('makes partitions at the start, sweeps a minute later, and both every hour', async () => {
  const { compactBusy, sweep, makePartitions } = upkeep();
  expect([makePartitions.mock.calls, sweep.mock.calls.length]).toEqual([[[400]], 0]);
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(sweep).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(HOUR);
  expect(sweep).toHaveBeenCalledTimes(2);
  expect(makePartitions).toHaveBeenCalledTimes(2);
  expect(compactBusy).toHaveBeenCalledTimes(61);
});

it('compacts busy devices and makes partitions during a long sweep, which is not started again', async () => {
  const { compactBusy, sweep, makePartitions } = upkeep();
  const ends: (() => void)[] = [];
  sweep.mockImplementation(() => new Promise((resolve) => ends.push(resolve)));
  await vi.advanceTimersByTimeAsync(3 * HOUR);
  expect(sweep).toHaveBeenCalledTimes(1);
  expect(compactBusy).toHaveBeenCalledTimes(180);
  expect(makePartitions).toHaveBeenCalledTimes(4);
  for (const end of ends) end();
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(sweep).toHaveBeenCalledTimes(2);
  for (const end of ends) end();
});

it('repeats a failed sweep and failed partitions after a minute', async () => {
  const { warnings, sweep, makePartitions } = upkeep();
  await vi.advanceTimersByTimeAsync(0);
  sweep.mockRejectedValueOnce(new Error('connection lost'));
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect([sweep.mock.calls.length, warnings]).toEqual([1, ['history upkeep failed; retrying']]);
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(sweep).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(57 * MINUTE);
  expect(makePartitions).toHaveBeenCalledTimes(1);
  makePartitions.mockRejectedValueOnce(new Error('table in use'));
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(makePartitions).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(makePartitions).toHaveBeenCalledTimes(3);
});

it('makes partitions on the leader alone after the first time', async () => {
  const { state, makePartitions } = upkeep();
  state.leader = false;
  await vi.advanceTimersByTimeAsync(2 * HOUR);
  expect(makePartitions).toHaveBeenCalledTimes(1);
});

it('logs reports and days that expire before they are compacted or merged, and drops what has expired', async () => {
  const { upkeep: history, state, warnings, dropPartitions } = upkeep();
  await history.dropExpired(NOW);
  expect(warnings).toEqual([]);
  state.progress = { compactedBefore: NOW - 20 * DAY, openFrom: 380 };
  await history.dropExpired(NOW);
  expect(warnings).toEqual([
    'history: reports expire before they are compacted',
    'history: samples expire before their day is merged',
  ]);
  const days = { today: 400, samplesFrom: 393, rollupsFrom: 400 - 730 };
  expect(dropPartitions.mock.calls).toEqual([
    [days, NOW],
    [days, NOW - 20 * DAY],
  ]);
});
