import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { HistoryRequest } from '../../../console/src/charts/history-request.ts';
import { markGroups } from '../../../console/src/charts/mark-strip.tsx';
import { earlierRequests } from '../../../console/src/charts/use-history.ts';
import { type ChartMark, markOf } from '../../../console/src/charts/use-marks.ts';

const NOON = Date.UTC(2026, 2, 1, 12);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const DEVICE = '0195d9a2-7f00-7000-8000-000000000001';
const COMMAND = '0195d9a2-7f00-7000-8000-000000000002';
const PLAN = '0195d9a2-7f00-7000-8000-000000000003';

type Entry = Parameters<typeof markOf>[0];
const entry = (changes: Partial<Entry>): Entry =>
  ({
    ...{ at: new Date(NOON).toISOString(), kind: 'presence', text: 'online', device_id: DEVICE },
    ...{ command_id: null, plan_id: null },
    ...changes,
  }) as Entry;

describe('a mark of an event', () => {
  it('leads to its command or plan; presence has none', () => {
    const hrefs = [
      entry({}),
      entry({ kind: 'command', command_id: COMMAND }),
      entry({ kind: 'confirmation', command_id: COMMAND, plan_id: PLAN }),
      entry({ kind: 'plan', plan_id: PLAN, command_id: COMMAND }),
      entry({ kind: 'plan', command_id: COMMAND }),
    ].map((one) => markOf(one).href);
    expect(hrefs).toEqual([
      ...[null, `/commands/${COMMAND}`, `/commands/${COMMAND}`, `/plans/${PLAN}`, `/commands/${COMMAND}`],
    ]);
  });

  it('is in a group with those that it would cover, and outside of the window it is not shown', () => {
    const mark = (minutes: number): ChartMark => markOf(entry({ at: new Date(NOON + minutes * 60_000).toISOString() }));
    const marks = [-1, 0, 1, 2, 30, 61].map(mark);
    const groups = markGroups(marks, { from: NOON, to: NOON + HOUR }, 600);
    expect(groups.map(({ left, marks: { length } }) => [left, length])).toEqual([
      [0, 3],
      [0.5, 1],
    ]);
    // With more pixels for each minute they do not cover each other.
    expect(markGroups(marks, { from: NOON, to: NOON + HOUR }, 6_000)).toHaveLength(4);
  });
});

describe('the time that values are compared with', () => {
  const request = (time: HistoryRequest['time']): HistoryRequest => ({
    ...{ deviceId: DEVICE, property: 'a', time, prefersSamples: true },
  });

  it('is a fixed time a day or a week earlier, in intervals', () => {
    const time = { window: { from: NOON, to: NOON + HOUR } };
    expect(earlierRequests([request(time)], { time, shift: 7 * DAY })).toEqual([
      {
        ...request({ window: { from: NOON - 7 * DAY, to: NOON + HOUR - 7 * DAY } }),
        prefersSamples: false,
      },
    ]);
  });

  it('of a range that ends now has what follows too, so that it is not requested each second', () => {
    const now = Date.parse('2026-11-26T10:00:30Z');
    vi.useFakeTimers({ now, toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const time = { range: '24h' } as const;
    const [one] = earlierRequests([request(time)], { time, shift: DAY });
    const window = one !== undefined && 'window' in one.time ? one.time.window : null;
    expect(window?.from).toBeLessThanOrEqual(now - 2 * DAY);
    expect(window?.to).toBeGreaterThanOrEqual(now - DAY);
    vi.setSystemTime(now + 1_000);
    expect(earlierRequests([request(time)], { time, shift: DAY })).toEqual([one]);
  });
});
