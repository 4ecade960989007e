import type { EpochMs, Milliseconds } from '../values.ts';
import { longestStates, type StateTime } from './bucket.ts';
import type { Sample, SampleValue } from './sample.ts';

/** An interval of a series, with its aggregates. */
export interface SeriesInterval {
  start: EpochMs;
  /** Number of samples; 0 if a state of an earlier interval lasted. */
  count: number;
  min: number | null;
  max: number | null;
  mean: number | null;
  last: SampleValue | null;
  states: readonly StateTime[];
}

/** A sample, or an interval: the mean of its numbers, or its last text or boolean. */
export interface SummaryPoint {
  at: EpochMs;
  value: SampleValue;
  /** Of an interval with several numbers. */
  min?: number;
  max?: number;
}

export type Trend = 'rising' | 'falling' | 'steady';

/** A time without a sample. */
export interface SeriesGap {
  from: EpochMs;
  to: EpochMs;
}

/** What a reader without a chart needs to know of a series. */
export interface SeriesSummary {
  /** Number of samples. */
  count: number;
  /** The last value before the range. */
  before: SampleValue | null;
  first: SummaryPoint | null;
  last: SummaryPoint | null;
  min: number | null;
  max: number | null;
  mean: number | null;
  /** Of the numbers; null with fewer than two. */
  trend: Trend | null;
  /** Samples with another value than the one before; null if it is not known. */
  changes: number | null;
  /** Longest first. */
  states: StateTime[];
  /** The longest ones, in their order. */
  gaps: SeriesGap[];
  points: SummaryPoint[];
}

const MAX_GAPS = 3;
/** A gap is that much longer than the median time between two samples. */
const GAP_FACTOR = 5;
/** A trend is at least that part of the difference of minimum and maximum. */
const TREND_PART = 0.2;

export interface SummarySource {
  /** In their order, of `step`. */
  intervals: readonly SeriesInterval[];
  step: Milliseconds;
  /** All samples of the range; null if there are too many, or if they have expired. */
  samples: readonly Pick<Sample, 'time' | 'value'>[] | null;
  /** The last value before the range; null without one. */
  before: SampleValue | null;
  /** Start of the range. */
  from: EpochMs;
  /** Whether a number lasts until the next sample, as texts and booleans do. */
  isStepped: boolean;
  /** Intervals are merged so that there are no more points. */
  maxPoints: number;
}

/**
 * Without the samples, times are those of intervals, and the first value is the last one of the first interval. A value that
 * lasted for the whole range is its first and last one.
 */
export function summarizeSeries(source: SummarySource): SeriesSummary {
  const { intervals, step, samples, before, isStepped, maxPoints } = source;
  const reported = intervals.filter(({ count }) => count > 0);
  if (reported.length === 0 && before !== null && (isStepped || typeof before !== 'number'))
    return constantSummary(before, source);
  const exact = samples?.map(({ time, value }) => ({ at: time, value })) ?? null;
  const lasts = exact ?? reported.flatMap(({ start, last }) => (last === null ? [] : [{ at: start, value: last }]));
  const numbers = exact === null ? numberSummary(reported) : numbersOf(exact);
  return {
    count: reported.reduce((sum, { count }) => sum + count, 0),
    before,
    first: lasts[0] ?? null,
    last: lasts.at(-1) ?? null,
    ...numbers,
    trend: trendOf(reported, numbers),
    changes: exact && changesOf(exact, before).length,
    states: statesOf(intervals),
    gaps: isStepped ? [] : exact === null ? gapsBetween(reported, step) : gapsOf(exact),
    points: pointsOf(exact, reported, maxPoints),
  };
}

/** Of a value that lasted for the whole range. */
function constantSummary(before: SampleValue, { intervals, from, maxPoints }: SummarySource): SeriesSummary {
  const point: SummaryPoint = { at: from, value: before };
  const numbers = numbersOf([point]);
  return {
    ...{ count: 0, before, first: point, last: point, ...numbers, trend: numbers.min === null ? null : 'steady' },
    ...{ changes: 0, states: statesOf(intervals), gaps: [], points: maxPoints === 0 ? [] : [point] },
  };
}

interface NumberRange {
  min: number | null;
  max: number | null;
  mean: number | null;
}

/** The mean is weighted by the number of samples; null if that of an interval is not known. */
function numberSummary(reported: readonly SeriesInterval[]): NumberRange {
  let sum = 0;
  let count = 0;
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const interval of reported) {
    if (interval.min === null || interval.max === null) continue;
    min = Math.min(min, interval.min);
    max = Math.max(max, interval.max);
    count += interval.count;
    sum += interval.mean === null ? Number.NaN : interval.mean * interval.count;
  }
  if (count === 0) return { min: null, max: null, mean: null };
  return { min, max, mean: Number.isFinite(sum) ? sum / count : null };
}

const numbersOf = (samples: readonly SummaryPoint[]): NumberRange =>
  numberSummary(
    samples.flatMap(({ at, value }) =>
      typeof value === 'number'
        ? [{ start: at, count: 1, min: value, max: value, mean: value, last: value, states: [] }]
        : [],
    ),
  );

/** The slope of the least-squares line through the means, over the whole time. */
function trendOf(reported: readonly SeriesInterval[], { min, max }: NumberRange): Trend | null {
  if (min === null || max === null) return null;
  // The products of numbers near the limit of a double are not finite.
  const scale = Math.max(Math.abs(min), Math.abs(max), Number.MIN_VALUE);
  const points = reported.flatMap(({ start, mean }) => (mean === null ? [] : [{ at: start, mean: mean / scale }]));
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || first === last) return null;
  const middle = points.reduce((sum, { at }) => sum + at, 0) / points.length;
  const average = points.reduce((sum, { mean }) => sum + mean / points.length, 0);
  const covariance = points.reduce((sum, { at, mean }) => sum + (at - middle) * (mean - average), 0);
  const variance = points.reduce((sum, { at }) => sum + (at - middle) ** 2, 0);
  const change = (covariance / variance) * (last.at - first.at);
  if (Math.abs(change) < TREND_PART * (max / scale - min / scale) || change === 0) return 'steady';
  return change > 0 ? 'rising' : 'falling';
}

/** The first sample is a change if there is another value before it. */
const changesOf = (samples: readonly SummaryPoint[], before: SampleValue | null): SummaryPoint[] =>
  samples.filter(({ value }, n) => value !== (n === 0 ? (before ?? value) : samples[n - 1]?.value));

function statesOf(intervals: readonly SeriesInterval[]): StateTime[] {
  const times = new Map<StateTime[0], Milliseconds>();
  for (const { states } of intervals)
    for (const [state, lasted] of states) times.set(state, (times.get(state) ?? 0) + lasted);
  return longestStates(times);
}

function gapsOf(samples: readonly SummaryPoint[]): SeriesGap[] {
  const between = samples.slice(1).map(({ at }, n) => ({ from: samples[n]?.at ?? at, to: at }));
  const lengths = between.map(lengthOf).sort((one, other) => one - other);
  const usual = lengths[lengths.length >> 1] ?? 0;
  return longestGaps(between.filter((gap) => lengthOf(gap) > GAP_FACTOR * usual && usual > 0));
}

/** Intervals without a sample between others. */
function gapsBetween(reported: readonly SeriesInterval[], step: Milliseconds): SeriesGap[] {
  const ends = reported.slice(1).map(({ start }, n) => ({ from: (reported[n]?.start ?? start) + step, to: start }));
  return longestGaps(ends.filter((gap) => lengthOf(gap) > 0));
}

const lengthOf = ({ from, to }: SeriesGap): Milliseconds => to - from;

const longestGaps = (gaps: readonly SeriesGap[]): SeriesGap[] =>
  gaps
    .toSorted((one, other) => lengthOf(other) - lengthOf(one))
    .slice(0, MAX_GAPS)
    .sort((one, other) => one.from - other.from);

/** All samples if they are few, or all changes of texts and booleans; otherwise intervals. */
function pointsOf(
  samples: readonly SummaryPoint[] | null,
  reported: readonly SeriesInterval[],
  maxPoints: number,
): SummaryPoint[] {
  if (samples !== null && samples.length <= maxPoints) return [...samples];
  if (samples?.every(({ value }) => typeof value !== 'number')) {
    const changes = [...samples.slice(0, 1), ...changesOf(samples, samples[0]?.value ?? null)];
    if (changes.length <= maxPoints) return changes;
  }
  const together = Math.ceil(reported.length / maxPoints);
  const points = chunked(reported, together).flatMap((intervals) => intervalPoint(merged(intervals)));
  return points.filter(({ value }, n) => typeof value === 'number' || value !== points[n - 1]?.value);
}

const chunked = <T>(all: readonly T[], length: number): T[][] =>
  Array.from({ length: Math.ceil(all.length / length) }, (_, n) => all.slice(n * length, (n + 1) * length));

/** Intervals that follow each other, as one. */
function merged(intervals: readonly SeriesInterval[]): SeriesInterval {
  const [first, last] = [intervals[0] as SeriesInterval, intervals.at(-1) as SeriesInterval];
  const count = intervals.reduce((sum, one) => sum + one.count, 0);
  return { ...first, ...numberSummary(intervals), count, last: last.last };
}

function intervalPoint({ start, count, min, max, mean, last }: SeriesInterval): SummaryPoint[] {
  if (min === null || max === null) return last === null ? [] : [{ at: start, value: last }];
  const value = mean ?? (typeof last === 'number' ? last : min);
  return [{ at: start, value, ...(count > 1 && { min, max }) }];
}
