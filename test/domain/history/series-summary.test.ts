import { describe, expect, it } from 'vitest';
import type { Sample } from '../../../src/domain/history/sample.ts';
import { type SeriesInterval, summarizeSeries } from '../../../src/domain/history/series-summary.ts';

const nothing = { min: null, max: null, mean: null, last: null, states: [] };
const numbers = (start: number, ...values: number[]): SeriesInterval => ({
  ...{ start, count: values.length, min: Math.min(...values), max: Math.max(...values), states: [] },
  ...{ mean: values.reduce((sum, one) => sum + one, 0) / values.length, last: values.at(-1) ?? null },
});
const unknownBefore = { before: null, from: 0, isStepped: false };
const samplesOf = (...values: [number, Sample['value']][]) => values.map(([time, value]) => ({ time, value }));

describe('the summary of a series', () => {
  it('is computed from intervals alone, without samples', () => {
    const intervals = [numbers(0, 1, 5), numbers(10, 7), numbers(40, 9, 9, 9)];
    const found = summarizeSeries({ intervals, step: 10, samples: null, maxPoints: 50, ...unknownBefore });
    expect(found).toEqual({
      ...{
        count: 6,
        before: null,
        first: { at: 0, value: 5 },
        last: { at: 40, value: 9 },
        min: 1,
        max: 9,
        mean: 40 / 6,
      },
      ...{ trend: 'rising', changes: null, states: [], gaps: [{ from: 20, to: 40 }] },
      points: [
        { at: 0, value: 3, min: 1, max: 5 },
        { at: 10, value: 7 },
        { at: 40, value: 9, min: 9, max: 9 },
      ],
    });
  });

  it('of nothing is empty, for any number of points', () => {
    for (const maxPoints of [0, 1, 50]) {
      const found = summarizeSeries({ intervals: [], step: 10, samples: [], maxPoints, ...unknownBefore });
      expect(found).toEqual({
        ...{
          count: 0,
          before: null,
          first: null,
          last: null,
          min: null,
          max: null,
          mean: null,
          trend: null,
          changes: 0,
        },
        ...{ states: [], gaps: [], points: [] },
      });
    }
  });

  it('merges intervals into the points that are requested', () => {
    const intervals = Array.from({ length: 9 }, (_, n) => numbers(n * 10, n, n + 1));
    const samples = samplesOf(
      ...intervals.flatMap(({ start }, n): [number, number][] => [
        [start, n],
        [start + 5, n + 1],
      ]),
    );
    const { points } = summarizeSeries({ intervals, step: 10, samples, maxPoints: 4, ...unknownBefore });
    expect(points).toEqual([
      { at: 0, value: 1.5, min: 0, max: 3 },
      { at: 30, value: 4.5, min: 3, max: 6 },
      { at: 60, value: 7.5, min: 6, max: 9 },
    ]);
  });

  it.each([
    ['rising', [1, 2, 3, 4]],
    ['falling', [4, 3, 2.5, 1]],
    ['steady', [1, 4, 1, 4, 1, 4, 1]],
    ['steady', [3, 3, 3]],
    [null, [3]],
  ])('has the trend %s of the means %j', (trend, means) => {
    const intervals = means.map((mean, n) => numbers(n * 10, mean));
    expect(summarizeSeries({ intervals, step: 10, samples: null, maxPoints: 50, ...unknownBefore }).trend).toBe(trend);
  });

  it('has the minimum and the maximum of numbers whose mean is not known', () => {
    const huge = { ...numbers(0, 1e308, 1.5e308), mean: null, last: 'high' };
    const found = summarizeSeries({
      intervals: [huge, numbers(10, 5)],
      step: 10,
      samples: null,
      maxPoints: 50,
      ...unknownBefore,
    });
    expect(found).toMatchObject({ min: 5, max: 1.5e308, mean: null, trend: null });
    expect(found.points).toEqual([
      { at: 0, value: 1e308, min: 1e308, max: 1.5e308 },
      { at: 10, value: 5 },
    ]);
  });

  it('has a trend of huge numbers, whose products are not finite', () => {
    const means = [-1e308, 1e308, -1e308, 1e308, 1e308, 1e308];
    const intervals = means.map((mean, n) => numbers(n * 1e6, mean));
    expect(summarizeSeries({ intervals, step: 1e6, samples: null, maxPoints: 50, ...unknownBefore }).trend).toBe(
      'rising',
    );
  });

  it('has the mean of the numbers alone, if there are texts among the samples', () => {
    const mixed = { ...numbers(0, 1, 1, 1), count: 100 };
    const samples = samplesOf([0, 1], [1, 1], [2, 1], [3, 'off'], [10, 5]);
    const found = summarizeSeries({
      intervals: [mixed, numbers(10, 5)],
      step: 10,
      samples,
      maxPoints: 50,
      ...unknownBefore,
    });
    expect(found).toMatchObject({ min: 1, max: 5, mean: 2 });
  });

  it('adds up states, and has their changes as points', () => {
    const states = [
      { ...nothing, start: 0, count: 3, last: 'off', states: [['on', 6] as const, ['off', 4] as const] },
      { ...nothing, start: 10, count: 0, states: [['off', 10] as const] },
    ] as unknown as SeriesInterval[];
    const samples = samplesOf([0, 'on'], [2, 'on'], [6, 'off']);
    const found = summarizeSeries({ intervals: states, step: 10, samples, maxPoints: 2, ...unknownBefore });
    expect(found.states).toEqual([
      ['off', 14],
      ['on', 6],
    ]);
    expect([found.changes, found.trend]).toEqual([1, null]);
    expect(found.points).toEqual([
      { at: 0, value: 'on' },
      { at: 6, value: 'off' },
    ]);
  });

  it('names the longest gaps between samples, in their order', () => {
    const times = [0, 1, 2, 30, 31, 32, 33, 80, 81, 82, 100, 101, 110, 111, 112, 113];
    const samples = samplesOf(...times.map((at): [number, number] => [at, 1]));
    const { gaps } = summarizeSeries({ intervals: [], step: 1_000, samples, maxPoints: 50, ...unknownBefore });
    expect(gaps).toEqual([
      { from: 2, to: 30 },
      { from: 33, to: 80 },
      { from: 82, to: 100 },
    ]);
  });

  it('of a value that lasted for the whole range is that value, if numbers last', () => {
    const summaryOf = (before: Sample['value'] | null, isStepped: boolean, intervals: SeriesInterval[] = []) =>
      summarizeSeries({ intervals, step: 10, samples: [], maxPoints: 1, before, from: 100, isStepped });
    const point = { at: 100, value: 21.5 };
    expect(summaryOf(21.5, true)).toEqual({
      ...{ count: 0, before: 21.5, first: point, last: point, min: 21.5, max: 21.5, mean: 21.5, trend: 'steady' },
      ...{ changes: 0, states: [], gaps: [], points: [point] },
    });
    const lasted: SeriesInterval = { ...nothing, start: 100, count: 0, states: [['on', 10]] };
    expect(summaryOf('on', false, [lasted])).toMatchObject({
      ...{ count: 0, before: 'on', first: { value: 'on' }, last: { value: 'on' }, min: null, mean: null, trend: null },
      ...{ changes: 0, states: [['on', 10]] },
    });
    const measured = { before: 21.5, first: null, last: null, min: null, trend: null, points: [] };
    expect(summaryOf(21.5, false)).toMatchObject(measured);
    expect(summaryOf(null, true)).toMatchObject({ before: null, first: null, points: [] });
  });

  it('counts a first sample as a change of the value before the range', () => {
    const changesAfter = (before: Sample['value'] | null) => {
      const samples = samplesOf([100, true], [101, false]);
      const intervals: SeriesInterval[] = [{ ...nothing, start: 100, count: 2, last: false }];
      const source = { intervals, step: 10, samples, maxPoints: 1, from: 100, isStepped: false };
      return summarizeSeries({ ...source, before }).changes;
    };
    expect([changesAfter(false), changesAfter(true), changesAfter(null)]).toEqual([2, 1, 1]);
  });
});
