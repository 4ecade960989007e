import type { AlignedData, TypedArray } from 'uplot';
import UPlot from 'uplot';
import type { Milliseconds } from '../../../src/domain/values.ts';
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
}

/** Whether the line has a band between the lowest and the highest values. */
export const hasBand = ({ points: { step, numbers }, isCompared }: PlotLine): boolean =>
  step > 0 && !isCompared && numbers.some(({ min, max }) => min !== max);

type Column = (number | null)[];

/** A point of an interval is in its middle. A null interrupts the line: no values are known there. */
function tableOf(line: PlotLine): [number[], ...Column[]] {
  const { points, shift } = line;
  const gap = gapLength(points);
  const offset = shift + points.step / 2;
  const band = hasBand(line);
  const times: number[] = [];
  const columns: Column[] = band ? [[], [], []] : [[]];
  let before = Number.NaN;
  for (const { at, value, min, max } of points.numbers) {
    if (at - before > gap) {
      times.push(before + offset + 1);
      for (const column of columns) column.push(null);
    }
    before = at;
    times.push(at + offset);
    columns[0]?.push(value);
    columns[1]?.push(min);
    columns[2]?.push(max);
  }
  return [times, ...columns];
}

/** Columns of the lines in their order: the values, and with a band the lowest and the highest ones. */
export function alignedData(lines: readonly PlotLine[]): AlignedData {
  const tables = lines.map(tableOf);
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
