import type { AlignedData, TypedArray } from 'uplot';
import UPlot from 'uplot';
import type { EpochMs, Milliseconds } from '../../../src/domain/values.ts';
import { gapLength, type SeriesPoints } from './points.ts';

// The lines of a pane in the format of uPlot: common times, with a column for each line and for its lowest and highest values.

export interface PlotLine {
  key: string;
  points: SeriesPoints;
  /** Number of the colour; the same for a line and the one that it is compared with. */
  colour: number;
  /** Added to the times, so that earlier values are drawn at the times that they are compared with. */
  shift: Milliseconds;
  /** The values of an earlier time: dashed, and without a band. */
  isCompared: boolean;
  /** A value lasts until the next one: the line has steps, and no gaps. */
  isStepped: boolean;
}

/** Whether the line has a band between the lowest and the highest values. */
export const hasBand = ({ points: { step, numbers }, isCompared }: PlotLine): boolean =>
  step > 0 && !isCompared && numbers.some(({ min, max }) => min !== max);

type Column = (number | null)[];

/** A part of the time that a plot shows. */
interface ShownPart {
  from: EpochMs;
  /** The end of the time, or now if that is earlier. */
  until: EpochMs;
}

/**
 * A point of an interval is in its middle. A null interrupts the line: no values are known there. A line with steps begins
 * with the value before its points, and its last value lasts until `until`.
 */
function tableOf(line: PlotLine, { from, until }: ShownPart): [number[], ...Column[]] {
  const { points, shift, isStepped } = line;
  const gap = isStepped ? Number.POSITIVE_INFINITY : gapLength(points);
  const offset = shift + points.step / 2;
  const band = hasBand(line);
  const times: number[] = [];
  const columns: Column[] = band ? [[], [], []] : [[]];
  let before = Number.NaN;
  const first = (points.numbers[0]?.at ?? until - offset) + offset;
  if (isStepped && points.before !== null && from < first) {
    times.push(from);
    for (const column of columns) column.push(points.before);
  }
  for (const { at, value, min, max, last } of points.numbers) {
    if (at - before > gap) {
      times.push(before + offset + 1);
      for (const column of columns) column.push(null);
    }
    before = at;
    times.push(at + offset);
    // The mean of an interval lasts no longer than that.
    columns[0]?.push(isStepped ? last : value);
    columns[1]?.push(min);
    columns[2]?.push(max);
  }
  const last = points.numbers.at(-1)?.last ?? points.before;
  if (isStepped && last !== null && until > (times.at(-1) ?? Number.NEGATIVE_INFINITY)) {
    times.push(until);
    for (const column of columns) column.push(last);
  }
  return [times, ...columns];
}

/** Columns of the lines in their order: the values, and with a band the lowest and the highest ones. */
export function alignedData(lines: readonly PlotLine[], shown: ShownPart): AlignedData {
  const tables = lines.map((line) => tableOf(line, shown));
  if (tables.length === 1) return tables[0] as AlignedData;
  return tables.length === 0 ? [[]] : UPlot.join(tables as AlignedData[]);
}

/**
 * Indexes of the points without a neighbour, which are invisible in a line. A column that has no point at a time of another
 * line is undefined there.
 */
export function isolatedPoints(column: ArrayLike<number | null | undefined> | TypedArray): number[] {
  const found: number[] = [];
  let candidate: number | null = null;
  let follows = false;
  for (let index = 0; index < column.length; index++) {
    const value = column[index];
    if (value === undefined) continue;
    if (value === null) {
      if (candidate !== null) found.push(candidate);
      candidate = null;
      follows = false;
    } else {
      candidate = follows ? null : index;
      follows = true;
    }
  }
  if (candidate !== null) found.push(candidate);
  return found;
}
