import type { SampleValue } from '../../../src/domain/history/sample.ts';
import { readStep } from '../../../src/domain/history/step-length.ts';
import type { EpochMs, Milliseconds } from '../../../src/domain/values.ts';
import type { getDeviceHistory } from '../../../src/operations/devices/device-history.ts';
import type { ResponseBody } from '../api/answer-types.ts';

// The history of a property as it is drawn: numbers as points, texts and booleans as segments.

export type HistoryAnswer = ResponseBody<typeof getDeviceHistory>['history'];

export interface NumberPoint {
  /** Time of the sample, or start of the interval. */
  at: EpochMs;
  /** The sample, or the mean of the interval. */
  value: number;
  /** Of an interval; the same as `value` for a sample. */
  min: number;
  max: number;
  /** The last sample, or the mean if the last sample of the interval is a text or a boolean. */
  last: number;
  /** Number of samples. */
  count: number;
}

/** A text or boolean, or null for states that an answer does not name. */
export type ShownState = string | boolean | null;

/** Time in which a text or boolean lasted, or an interval in which several did. */
export interface StateSegment {
  from: EpochMs;
  /** Exclusive; infinite for the state that lasts until now. */
  to: EpochMs;
  /** Parts of the time, which add up to 1. */
  shares: readonly { state: ShownState; share: number }[];
}

export interface SeriesPoints {
  /** Length of the intervals; 0 for samples. */
  step: Milliseconds;
  /** As the API names it. */
  stepText: string;
  numbers: readonly NumberPoint[];
  segments: readonly StateSegment[];
  /** The last number before the points; null if it is not known, or none. */
  before: number | null;
  /** Points from this time on came over the stream, or may change: they are read again. */
  confirmedTo: EpochMs;
  /** Time of the last number that came over the stream: each chart of the series adds it. */
  lastLiveAt?: EpochMs;
}

/** `now` is the time of the answer. */
export function pointsOf(answer: HistoryAnswer, now: EpochMs): SeriesPoints {
  const isSampled = answer.step === 'raw' || answer.step === 'changes';
  const step = isSampled ? 0 : readStep(answer.step);
  const numbers: NumberPoint[] = [];
  const segments: StateSegment[] = [];
  for (const { at, value } of answer.samples ?? []) addSample(numbers, segments, Date.parse(at), value as SampleValue);
  for (const point of answer.points ?? []) addInterval(numbers, segments, point, { step, now });
  const confirmedTo = Math.min(Date.parse(answer.to), now) - Math.max(step, RECENT_MS);
  const before = typeof answer.before === 'number' ? answer.before : null;
  return { step, stepText: answer.step, numbers, segments, before, confirmedTo };
}

/** The clock of a device may be five minutes behind, and its reports have its times (docs/history.md). */
const RECENT_MS = 330_000;

function addSample(numbers: NumberPoint[], segments: StateSegment[], at: EpochMs, value: SampleValue): void {
  if (typeof value === 'number') numbers.push({ at, value, min: value, max: value, last: value, count: 1 });
  else addState(segments, at, value);
}

type IntervalPoint = NonNullable<HistoryAnswer['points']>[number];

function addInterval(
  numbers: NumberPoint[],
  segments: StateSegment[],
  { at, count, min, max, mean, last, states }: IntervalPoint,
  { step, now }: { step: Milliseconds; now: EpochMs },
): void {
  const start = Date.parse(at);
  if (min !== null && max !== null) {
    // The mean of numbers whose sum is too large is not known.
    const value = mean ?? min / 2 + max / 2;
    numbers.push({ at: start, value, min, max, last: typeof last === 'number' ? last : value, count: count ?? 0 });
  }
  const total = (states ?? []).reduce((sum, { ms }) => sum + ms, 0);
  if (total <= 0) return;
  const shares = (states ?? []).map(({ state, ms }) => ({ state: (state ?? null) as ShownState, share: ms / total }));
  const isNewest = start + step >= now;
  // The first interval may begin before the first sample, and the newest one is not over.
  const from = isNewest || total >= step ? start : start + step - total;
  addSegment(segments, { from, to: isNewest && shares.length === 1 ? Number.POSITIVE_INFINITY : start + step, shares });
}

/** A state that is known to begin now, and lasts until another one. */
function addState(segments: StateSegment[], at: EpochMs, state: string | boolean): void {
  const last = segments.at(-1);
  if (last !== undefined && last.to > at) segments[segments.length - 1] = { ...last, to: at };
  addSegment(segments, { from: at, to: Number.POSITIVE_INFINITY, shares: [{ state, share: 1 }] });
}

/** Joins it with the last one if that has the same state. */
function addSegment(segments: StateSegment[], next: StateSegment): void {
  const last = segments.at(-1);
  const [one, other] = [singleState(last), singleState(next)];
  const continues = last !== undefined && one !== undefined && one === other && last.to >= next.from;
  if (continues) segments[segments.length - 1] = { ...last, to: next.to };
  else segments.push(next);
}

/** The only state of a segment; undefined if it has several. */
export const singleState = (segment: StateSegment | undefined): ShownState | undefined =>
  segment?.shares.length === 1 ? segment.shares[0]?.state : undefined;

/** The points before `from`, followed by those of a later answer. */
export function joinPoints(before: SeriesPoints, after: SeriesPoints, from: EpochMs): SeriesPoints {
  const numbers = [...before.numbers.filter(({ at }) => at < from), ...after.numbers];
  const segments: StateSegment[] = [];
  for (const one of before.segments) if (one.from < from) segments.push({ ...one, to: Math.min(one.to, from) });
  const first = after.segments[0];
  // Samples do not name the state before the first of them.
  const last = segments.at(-1);
  if (after.step === 0 && last !== undefined) {
    segments[segments.length - 1] = { ...last, to: first?.from ?? Number.POSITIVE_INFINITY };
  }
  for (const one of after.segments) addSegment(segments, one);
  return { ...after, numbers, segments, before: before.before };
}

/** Removes what is before `from`. */
export const cutPoints = (points: SeriesPoints, from: EpochMs): SeriesPoints => ({
  ...points,
  numbers: points.numbers.filter(({ at }) => at + points.step >= from),
  segments: points.segments.filter(({ to }) => to > from),
  before: points.numbers.findLast(({ at }) => at + points.step < from)?.last ?? points.before,
});

/** More than a chart can show; an answer has half of it at most. The oldest are dropped, until the range is read again. */
export const MAX_LIVE_POINTS = 20_000;

/** Adds the sample of a report that came over the stream. Its time is that of the device, which may be earlier than others. */
export function withLiveSample(points: SeriesPoints, at: EpochMs, value: SampleValue): SeriesPoints {
  if (typeof value === 'number') {
    const numbers = at === points.lastLiveAt ? points.numbers : withLiveNumber(points, at, value);
    if (numbers === points.numbers) return points;
    return { ...points, numbers: numbers.slice(-MAX_LIVE_POINTS), lastLiveAt: at };
  }
  const last = points.segments.at(-1);
  // A late state ends at a time that only the history knows.
  if (singleState(last) === value || (last !== undefined && at < last.from)) return points;
  const segments = [...points.segments];
  addState(segments, at, value);
  return { ...points, segments: segments.slice(-MAX_LIVE_POINTS) };
}

function withLiveNumber({ numbers, step }: SeriesPoints, at: EpochMs, value: number): readonly NumberPoint[] {
  const start = step === 0 ? at : Math.floor(at / step) * step;
  const index = numbers.findLastIndex((one) => one.at <= start);
  const [before, after] = [numbers.slice(0, index + 1), numbers.slice(index + 1)];
  const same = before.at(-1);
  if (same?.at !== start)
    return [...before, { at: start, value, min: value, max: value, last: value, count: 1 }, ...after];
  // The sample itself, which the answer has already.
  if (step === 0) return numbers;
  const count = same.count + 1;
  const mean = same.value + (value - same.value) / count;
  const [min, max] = [Math.min(same.min, value), Math.max(same.max, value)];
  return [...before.slice(0, -1), { at: start, value: mean, min, max, last: value, count }, ...after];
}

/** A distance that is so many times the usual one is a gap. */
const GAP_FACTOR = 4;

const gapLengths = new WeakMap<SeriesPoints, Milliseconds>();

/** Distance of two points beyond which the values between them are not known. */
export function gapLength(points: SeriesPoints): Milliseconds {
  const known = gapLengths.get(points);
  if (known !== undefined) return known;
  const { numbers, step } = points;
  const distances = numbers.slice(1).map(({ at }, n) => at - (numbers[n] as NumberPoint).at);
  const median = distances.sort((one, other) => one - other)[distances.length >> 1];
  const length = median === undefined ? Number.POSITIVE_INFINITY : Math.max(GAP_FACTOR * median, 2 * step);
  gapLengths.set(points, length);
  return length;
}
