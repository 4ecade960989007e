import { expect, it } from 'vitest';
import { alignedData, hasBand, isolatedPoints, type PlotLine } from '../../../console/src/charts/plot-data.ts';

const SHOWN = { from: 0, until: 1_000_000 };
const line = (changes: Partial<PlotLine>, step: number, ...points: [at: number, value: number, spread?: number][]) => ({
  ...{ key: 'k', colour: 0, shift: 0, isCompared: false, isStepped: false },
  points: {
    ...{ step, stepText: step === 0 ? 'raw' : '1m', segments: [], before: null, confirmedTo: 0 },
    numbers: points.map(([at, value, spread = 0]) => ({
      ...{ at, value, min: value - spread, max: value + spread, last: value, count: 1 },
    })),
  },
  ...changes,
});

it('a line is interrupted where no values are known', () => {
  const data = alignedData([line({}, 0, [0, 1], [10, 2], [20, 3], [90, 4], [100, 5])], SHOWN);
  expect(data).toEqual([
    [0, 10, 20, 21, 90, 100],
    [1, 2, 3, null, 4, 5],
  ]);
});

it('an interval is drawn in its middle, with its lowest and highest values', () => {
  const spread = line({}, 60, [0, 10, 2], [60, 12, 1]);
  expect(hasBand(spread)).toBe(true);
  expect(alignedData([spread], SHOWN)).toEqual([
    [30, 90],
    [10, 12],
    [8, 11],
    [12, 13],
  ]);
  expect(hasBand(line({}, 60, [0, 10]))).toBe(false);
  expect(hasBand(line({ isCompared: true }, 60, [0, 10, 2]))).toBe(false);
});

it('lines have common times; earlier values are at the times that they are compared with', () => {
  const data = alignedData(
    [line({}, 0, [1000, 1], [1010, 2]), line({ shift: 1000, isCompared: true }, 0, [5, 7])],
    SHOWN,
  );
  expect(data).toEqual([
    [1000, 1005, 1010],
    [1, undefined, 2],
    [undefined, 7, undefined],
  ]);
});

it('a point without neighbours is found, also among the times of other lines', () => {
  expect(isolatedPoints([1, null, 2, 3, null, undefined, 4, undefined])).toEqual([0, 6]);
  expect(isolatedPoints([1, undefined, 2])).toEqual([]);
  expect(isolatedPoints([])).toEqual([]);
});

it('a line with steps has no gaps, begins with the value before it, and lasts until now', () => {
  const steps = line({ isStepped: true }, 60, [60, 10], [120, 11, 1], [180, 14], [6_000, 12, 1]);
  const numbers = steps.points.numbers.map((one) => ({ ...one, last: one.max }));
  const from = { ...steps, points: { ...steps.points, numbers, before: 9 } };
  expect(alignedData([from], { from: 30, until: 9_000 })).toEqual([
    [30, 90, 150, 210, 6_030, 6_060, 9_000],
    [9, 10, 12, 14, 13, 13, 13],
    [9, 10, 10, 14, 11, 13, 13],
    [9, 10, 12, 14, 13, 13, 13],
  ]);
  const none = { ...from, points: { ...from.points, numbers: [] } };
  expect(alignedData([none], { from: 30, until: 9_000 })).toEqual([
    [30, 9_000],
    [9, 9],
  ]);
  expect(alignedData([steps], { from: 100, until: 210 })[0]).toEqual([90, 150, 210, 6_030]);
});

it('the band of an interval of a line with steps ends with the interval', () => {
  const steps = line({ isStepped: true }, 60, [0, 12, 1], [600, 12]);
  const band = (until: number) => alignedData([steps], { from: 0, until });
  expect(band(700)).toEqual([
    [30, 60, 630, 700],
    [12, 12, 12, 12],
    [11, 12, 12, 12],
    [13, 12, 12, 12],
  ]);
  const open = { ...steps, points: { ...steps.points, numbers: steps.points.numbers.slice(0, 1) } };
  expect(alignedData([open], { from: 0, until: 50 })).toEqual([
    ...[
      [30, 50],
      [12, 12],
      [11, 12],
      [13, 12],
    ],
  ]);
  expect(alignedData([{ ...open, isCompared: true }], { from: 0, until: 500 })[0]).toEqual([30, 500]);
});
