import { withUnit } from '../ui/values.tsx';
import { gapLength, type NumberPoint, type SeriesPoints, type StateSegment } from './points.ts';
import { stateName } from './state-band.ts';
import type { ShownSeries } from './use-chart.ts';

// Values of a chart as text: at the cursor, and in the table.

export const numberText = (value: number, unit: string | undefined): string =>
  withUnit(value.toLocaleString(undefined, { maximumSignificantDigits: 6 }), unit);

/** `20.8 °C (20.1 to 21.4)`: an interval with its lowest and highest values. */
export function pointText({ value, min, max }: NumberPoint, unit: string | undefined): string {
  const range = min === max ? '' : ` (${numberText(min, undefined)} to ${numberText(max, undefined)})`;
  return numberText(value, unit) + range;
}

/** `yes`, or `yes 80 %, no 20 %` for an interval in which both lasted. */
export const segmentText = ({ shares }: StateSegment): string =>
  shares
    .map(({ state, share }) => stateName(state) + (shares.length === 1 ? '' : ` ${Math.round(share * 100)}\u00a0%`))
    .join(', ');

type Readable = Pick<ShownSeries, 'points' | 'unit' | 'isStepped'>;

/** The value at a time: that of the nearest point, unless the time is in a gap, or the last one of a line with steps. */
export function textAt({ points, unit, isStepped }: Readable, time: number): string | null {
  if (points === undefined) return null;
  const { segments, step } = points;
  // A number is in the middle of its interval, and the first state may begin in the second half of it.
  const segment =
    segments.findLast(({ from, to }) => from <= time && time < to) ??
    segments.find(({ from }) => from > time && from <= time + step / 2);
  if (segment !== undefined) return segmentText(segment);
  if (isStepped && segments.length === 0) return steppedText(points, time, unit);
  const nearest = nearestPoint(points, time);
  return nearest === null ? null : pointText(nearest, unit);
}

/** After an interval its last value lasts. */
function steppedText({ numbers, step, before }: SeriesPoints, time: number, unit: string | undefined): string | null {
  const point = numbers.findLast(({ at }) => at <= time);
  if (point === undefined) return before === null ? null : numberText(before, unit);
  return time < point.at + step || step === 0 ? pointText(point, unit) : numberText(point.last, unit);
}

function nearestPoint(points: SeriesPoints, time: number): NumberPoint | null {
  const { numbers, step } = points;
  const wanted = time - step / 2;
  const after = numbers[firstAtOrAfter(numbers, wanted)];
  const before = numbers[firstAtOrAfter(numbers, wanted) - 1];
  const distance = (point: NumberPoint | undefined): number => Math.abs((point?.at ?? Number.NaN) - wanted);
  const nearest = after === undefined || distance(before) < distance(after) ? before : after;
  return nearest !== undefined && distance(nearest) <= Math.min(gapLength(points), MAX_DISTANCE_MS + step * 2)
    ? nearest
    : null;
}

/** Two points that are alone may be far apart. */
const MAX_DISTANCE_MS = 24 * 3_600_000;

function firstAtOrAfter(numbers: readonly NumberPoint[], time: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] as NumberPoint).at < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The newest value. */
export function lastText({ points, unit, isStepped }: Readable): string | null {
  const segment = points?.segments.at(-1);
  const point = points?.numbers.at(-1);
  if (segment !== undefined) return segmentText(segment);
  const last = point?.last ?? (isStepped ? points?.before : null) ?? null;
  return last === null ? null : numberText(last, unit);
}

/** The times that have a value, for the cursor of the keyboard: in their order, without duplicates. */
export function cursorTimes(series: readonly ShownSeries[]): number[] {
  const times = new Set<number>();
  for (const { points } of series) {
    for (const { at } of points?.numbers ?? []) times.add(at + (points?.step ?? 0) / 2);
    for (const { from } of points?.segments ?? []) times.add(from);
  }
  return [...times].sort((one, other) => one - other);
}

export interface PointRow {
  key: string;
  at: number;
  series: ShownSeries;
  /** The number, or the state as text. */
  value: number | string;
  /** Of an interval of numbers. */
  min: number | null;
  max: number | null;
}

/** All points within the window, newest first. */
export function pointRows(series: readonly ShownSeries[], { from, to }: { from: number; to: number }): PointRow[] {
  const rows = series.flatMap((one): PointRow[] => {
    const { numbers = [], segments = [], step = 0 } = one.points ?? {};
    return [
      ...numbers
        .filter(({ at }) => at + step > from && at < to)
        .map(({ at, value, min, max }) => ({
          ...{ key: `${one.key} ${at}`, at, series: one, value },
          ...(step > 0 ? { min, max } : { min: null, max: null }),
        })),
      ...segments
        .filter((segment) => segment.to > from && segment.from < to)
        .map((segment) => ({
          ...{ key: `${one.key} state ${segment.from}`, at: segment.from, series: one, value: segmentText(segment) },
          ...{ min: null, max: null },
        })),
    ];
  });
  return rows.sort((one, other) => other.at - one.at);
}
