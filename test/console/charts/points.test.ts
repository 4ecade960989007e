import { describe, expect, it } from 'vitest';
import {
  cutPoints,
  gapLength,
  type HistoryAnswer,
  joinPoints,
  MAX_LIVE_POINTS,
  pointsOf,
  type SeriesPoints,
  withLiveSample,
} from '../../../console/src/charts/points.ts';

const NOON = Date.UTC(2026, 2, 1, 12);
const MINUTE = 60_000;
const iso = (minutes: number) => new Date(NOON + minutes * MINUTE).toISOString();

const answer = (changes: Partial<HistoryAnswer>): HistoryAnswer => ({
  ...{ device_id: 'x', property: 'p', from: iso(0), to: iso(60), step: '1m', source: '1m' },
  ...{ samples: null, points: null, before: null, next_from: null },
  ...changes,
});
const sample = (minutes: number, value: number | boolean | string) => ({
  ...{ at: iso(minutes), value, received_at: iso(minutes), sequence_number: 1 },
});
const interval = (minutes: number, changes: object) => ({
  ...{ at: iso(minutes), count: 1, min: null, max: null, mean: null, last: null, states: [] },
  ...changes,
});

const raw = (...samples: ReturnType<typeof sample>[]): SeriesPoints =>
  pointsOf(answer({ step: 'raw', samples }), NOON + 60 * MINUTE);

describe('the points of an answer', () => {
  it('are the samples of numbers', () => {
    expect(raw(sample(1, 20), sample(2, 21)).numbers).toEqual([
      { at: NOON + MINUTE, value: 20, min: 20, max: 20, last: 20, count: 1 },
      { at: NOON + 2 * MINUTE, value: 21, min: 21, max: 21, last: 21, count: 1 },
    ]);
  });

  it('are the intervals with their mean, and the middle where the mean is not known', () => {
    const points = [
      interval(0, { count: 3, min: 10, max: 30, mean: 15, last: 12 }),
      interval(1, { count: 2, min: 1e308, max: 1.5e308 }),
    ];
    expect(pointsOf(answer({ points }), NOON + 60 * MINUTE).numbers).toEqual([
      { at: NOON, value: 15, min: 10, max: 30, last: 12, count: 3 },
      { at: NOON + MINUTE, value: 1.25e308, min: 1e308, max: 1.5e308, last: 1.25e308, count: 2 },
    ]);
  });

  it('are joined segments of states; the first begins with its sample, and the newest lasts until now', () => {
    const points = [
      interval(0, { states: [{ state: false, ms: 20_000 }] }),
      interval(1, { states: [{ state: false, ms: MINUTE }] }),
      interval(2, {
        states: [
          { state: false, ms: 15_000 },
          { state: true, ms: 45_000 },
        ],
      }),
      interval(3, { states: [{ state: true, ms: 30_000 }] }),
    ];
    const now = NOON + 3.5 * MINUTE;
    expect(pointsOf(answer({ points }), now).segments).toEqual([
      { from: NOON + 40_000, to: NOON + 2 * MINUTE, shares: [{ state: false, share: 1 }] },
      {
        ...{ from: NOON + 2 * MINUTE, to: NOON + 3 * MINUTE },
        shares: [
          { state: false, share: 0.25 },
          { state: true, share: 0.75 },
        ],
      },
      { from: NOON + 3 * MINUTE, to: Number.POSITIVE_INFINITY, shares: [{ state: true, share: 1 }] },
    ]);
  });

  it('are confirmed up to the times that reports of a slow clock may have, and of intervals to the last complete one', () => {
    expect(raw().confirmedTo).toBe(NOON + 60 * MINUTE - 330_000);
    const points = [interval(0, { min: 1, max: 1, mean: 1 })];
    expect(pointsOf(answer({ points, step: '10m' }), NOON + 30 * MINUTE).confirmedTo).toBe(NOON + 20 * MINUTE);
  });
});

describe('live samples', () => {
  it('are added at their times, also late ones, and once', () => {
    const points = withLiveSample(raw(sample(1, 20)), NOON + 3 * MINUTE, 22);
    const late = withLiveSample(points, NOON + 2 * MINUTE, 21);
    expect(late.numbers.map(({ at, value }) => [at - NOON, value])).toEqual([
      [MINUTE, 20],
      [2 * MINUTE, 21],
      [3 * MINUTE, 22],
    ]);
    expect(withLiveSample(late, NOON + 2 * MINUTE, 21)).toBe(late);
    // A value that is reported again continues the line.
    expect(withLiveSample(late, NOON + 4 * MINUTE, 22).numbers).toHaveLength(4);
  });

  it('are part of the interval in which they are', () => {
    const before = pointsOf(answer({ points: [interval(0, { count: 1, min: 10, max: 10, mean: 10 })] }), NOON);
    const within = withLiveSample(before, NOON + 30_000, 30);
    expect(within.numbers).toEqual([{ at: NOON, value: 20, min: 10, max: 30, last: 30, count: 2 }]);
    // Two charts of the same series add the same sample.
    expect(withLiveSample(within, NOON + 30_000, 30)).toBe(within);
    const next = withLiveSample(within, NOON + 70_000, 5);
    expect(next.numbers.at(-1)).toEqual({ at: NOON + MINUTE, value: 5, min: 5, max: 5, last: 5, count: 1 });
  });

  it('end the state before; a late state is left to the history', () => {
    const points = withLiveSample(raw(sample(1, 'eco')), NOON + 3 * MINUTE, 'heat');
    expect(points.segments.map(({ from, to, shares }) => [from - NOON, to - NOON, shares[0]?.state])).toEqual([
      [MINUTE, 3 * MINUTE, 'eco'],
      [3 * MINUTE, Number.POSITIVE_INFINITY, 'heat'],
    ]);
    expect(withLiveSample(points, NOON + 4 * MINUTE, 'heat')).toBe(points);
    expect(withLiveSample(points, NOON + 2 * MINUTE, 'off')).toBe(points);
  });

  it('are bounded while the history cannot be read: the oldest are dropped', () => {
    let numbers = raw(sample(1, 20));
    numbers = {
      ...numbers,
      numbers: Array.from({ length: MAX_LIVE_POINTS }, (_, n) => ({
        ...{ at: NOON + n, value: n, min: n, max: n, last: n, count: 1 },
      })),
    };
    for (let n = 0; n < 5; n += 1) numbers = withLiveSample(numbers, NOON + MINUTE + n, n);
    expect(numbers.numbers).toHaveLength(MAX_LIVE_POINTS);
    expect(numbers.numbers[0]?.at).toBe(NOON + 5);
  });
});

describe('later points', () => {
  it('replace those from their time on', () => {
    const before = withLiveSample(raw(sample(1, 20), sample(2, 21)), NOON + 4 * MINUTE, 25);
    const joined = joinPoints(before, raw(sample(3, 24), sample(4, 25)), NOON + 3 * MINUTE);
    expect(joined.numbers.map(({ value }) => value)).toEqual([20, 21, 24, 25]);
  });

  it('continue a state', () => {
    const states = [{ state: 'on', ms: MINUTE }];
    const before = pointsOf(answer({ points: [interval(0, { states }), interval(1, { states })] }), NOON + 2 * MINUTE);
    const after = pointsOf(answer({ points: [interval(1, { states }), interval(2, { states })] }), NOON + 9 * MINUTE);
    expect(joinPoints(before, after, NOON + MINUTE).segments).toEqual([
      { from: NOON, to: NOON + 3 * MINUTE, shares: [{ state: 'on', share: 1 }] },
    ]);
  });

  it('push the oldest ones out', () => {
    const points = withLiveSample(raw(sample(1, 20), sample(2, 21), sample(9, 'eco')), NOON + 10 * MINUTE, 'heat');
    const cut = cutPoints(points, NOON + 2 * MINUTE);
    expect([cut.numbers.length, cut.segments.length]).toEqual([1, 2]);
    expect(cutPoints(points, NOON + 11 * MINUTE).segments).toHaveLength(1);
  });
});

describe('a gap', () => {
  it('is longer than four usual distances, and than two intervals', () => {
    expect(gapLength(raw(sample(1, 1), sample(2, 2), sample(3, 3), sample(30, 4)))).toBe(4 * MINUTE);
    expect(gapLength(raw(sample(1, 1)))).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('the number before the points', () => {
  const points = (...minutes: number[]) =>
    minutes.map((at) => interval(at, { min: at, max: at + 1, mean: at, last: at + 1 }));

  it('is that of the answer, then the last one that was cut, and stays when later ones are joined', () => {
    const known = pointsOf(answer({ points: points(1, 2, 3), before: 7 }), NOON + 4 * MINUTE);
    expect(known.before).toBe(7);
    expect(pointsOf(answer({ points: points(1), before: 'off' }), NOON).before).toBeNull();
    const after = pointsOf(answer({ points: points(3, 4), before: 3 }), NOON + 5 * MINUTE);
    expect(joinPoints(known, after, NOON + 3 * MINUTE)).toMatchObject({ before: 7, numbers: { length: 4 } });
    expect(cutPoints(known, NOON + 1.5 * MINUTE)).toMatchObject({ before: 7, numbers: { length: 3 } });
    expect(cutPoints(known, NOON + 3.5 * MINUTE)).toMatchObject({ before: 3, numbers: { length: 1 } });
  });
});
