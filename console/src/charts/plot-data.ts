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

/** Times in their order, with a value for each, and with a band the lowest and the highest ones. */
type Table = [times: number[], values: Column, least?: Column, most?: Column];

function addRow(
  [times, values, least, most]: Table,
  time: number,
  value: number | null,
  [min, max]: readonly [number | null, number | null] = [value, value],
): void {
  times.push(time);
  values.push(value);
  least?.push(min);
  most?.push(max);
}

function tableOf(line: PlotLine, shown: ShownPart): Table {
  const table: Table = hasBand(line) ? [[], [], [], []] : [[], []];
  if (line.isStepped) addSteps(table, line, shown);
  else addMeasured(table, line);
  return table;
}

/** A point of an interval is in its middle. A null interrupts the line: no values are known there. */
function addMeasured(table: Table, { points, shift }: PlotLine): void {
  const gap = gapLength(points);
  const offset = shift + points.step / 2;
  let before = Number.NaN;
  for (const { at, value, min, max } of points.numbers) {
    if (at - before > gap) addRow(table, before + offset + 1, null);
    before = at;
    addRow(table, at + offset, value, [min, max]);
  }
}

/**
 * A line with steps begins with the value before its points, and its last value lasts until `until`. An interval has its last
 * value in its middle: its mean, and its band, last no longer than the interval.
 */
function addSteps(table: Table, { points, shift }: PlotLine, { from, until }: ShownPart): void {
  const { numbers, step } = points;
  const [first] = numbers;
  let last = points.before;
  if (last !== null && from < (first === undefined ? until : first.at + shift + step / 2)) addRow(table, from, last);
  /** The end of the last interval if it has a band. */
  let bandEnd = Number.POSITIVE_INFINITY;
  for (const { at, last: value, min, max } of numbers) {
    if (bandEnd < at + shift) addRow(table, bandEnd, last);
    addRow(table, at + shift + step / 2, value, [min, max]);
    last = value;
    bandEnd = min !== max && table[2] !== undefined ? at + shift + step : Number.POSITIVE_INFINITY;
  }
  if (last === null || until <= (table[0].at(-1) ?? Number.NEGATIVE_INFINITY)) return;
  if (bandEnd < until) addRow(table, bandEnd, last);
  addRow(table, until, last);
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
