import { columnsOf, escapeForTerminal, fitColumns } from './terminal-text.ts';

// A chart of a series in characters: numbers as a line of their minimum and maximum, states as a band each.

/** A sample, whose `end` is its `start`, or an interval. */
export interface ChartValue {
  /** Epoch milliseconds. */
  start: number;
  end: number;
  /** Of the numbers; null without one. */
  min: number | null;
  max: number | null;
  /** How long each text or boolean lasted, in ms. */
  states: readonly (readonly [name: string, ms: number])[];
}

export interface ChartOptions {
  /** Columns of the terminal. */
  width: number;
  /** Without braille patterns and block elements. */
  ascii: boolean;
  from: number;
  to: number;
  /** The label of a time. */
  timeText(at: number): string;
}

/** Rows of the area of numbers; odd, so that one is in the middle. */
const ROWS = 13;
const MIN_COLUMNS = 10;
/** Bands of states; the shorter states are left out. */
const MAX_BANDS = 8;
const MAX_LABEL = 20;

/** The lines of a chart of the values, which are in their order; none without values. */
export function chartLines(values: readonly ChartValue[], options: ChartOptions): string[] {
  const numbers = values.filter(({ min }) => min !== null);
  const totals = stateTotals(values);
  const bands = [...totals].sort(([, one], [, other]) => other - one).slice(0, MAX_BANDS);
  const range = rangeOf(numbers);
  const labels = [...(range === null ? [] : axisLabels(range)), ...bands.map(([name]) => labelOf(name))];
  if (labels.length === 0) return [];
  const gutter = Math.max(...labels.map(columnsOf));
  const columns = Math.max(MIN_COLUMNS, options.width - gutter - 2);
  const left = (label: string) => `${' '.repeat(gutter - columnsOf(label))}${label} `;
  const area = range === null ? [] : numberArea(numbers, range, columns, options);
  return [
    ...area.map((line, row) => left(rowLabel(range as NumberRange, row)) + axis(options) + line),
    ...bands.map(([name]) => left(labelOf(name)) + axis(options) + stateBand(values, name, columns, options)),
    ...timeAxis(columns, options).map((line) => left('') + line),
    ...(totals.size > bands.length ? [`${totals.size - bands.length} other states are not shown`] : []),
  ].map((line) => line.trimEnd());
}

const axis = ({ ascii }: ChartOptions): string => (ascii ? '|' : '│');

interface NumberRange {
  low: number;
  high: number;
}

function rangeOf(numbers: readonly ChartValue[]): NumberRange | null {
  if (numbers.length === 0) return null;
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { min, max } of numbers) {
    low = Math.min(low, min ?? low);
    high = Math.max(high, max ?? high);
  }
  // A constant is drawn in the middle. The difference of the largest doubles is not finite.
  const margin = low === high ? Math.abs(low) / 10 || 1 : 0;
  return { low: low - margin, high: high + margin };
}

/** The rows that have a label: the first, the middle and the last one. */
const LABELLED = [0, (ROWS - 1) / 2, ROWS - 1];

const axisLabels = (range: NumberRange): string[] => LABELLED.map((row) => rowLabel(range, row));

function rowLabel({ low, high }: NumberRange, row: number): string {
  if (!LABELLED.includes(row)) return '';
  const part = 1 - row / (ROWS - 1);
  return chartNumber(low * (1 - part) + high * part, high - low);
}

/** With as many digits as the range needs. */
export function chartNumber(value: number, range: number): string {
  const digits = range > 0 && Number.isFinite(range) ? Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(range)))) : 2;
  const text = Math.abs(value) >= 1e9 ? value.toPrecision(4) : value.toFixed(digits);
  return /\.\d+$/.test(text) ? text.replace(/\.?0+$/, '') : text;
}

/** Position of a value in the range: 0 for the lowest and 1 for the highest one. */
const partOf = ({ low, high }: NumberRange, value: number): number => (value / 2 - low / 2) / (high / 2 - low / 2);

/** A grid of dots: braille patterns have 2 columns and 4 rows of dots in each character. */
function numberArea(
  numbers: readonly ChartValue[],
  range: NumberRange,
  columns: number,
  options: ChartOptions,
): string[] {
  const { ascii, from, to } = options;
  const cell = ascii ? { width: 1, height: 1 } : { width: 2, height: 4 };
  const [width, height] = [columns * cell.width, ROWS * cell.height];
  const dots = new Uint8Array(width * height);
  for (const { start, end, min, max } of numbers) {
    const first = clamp(Math.floor(((start - from) / (to - from)) * width), width - 1);
    const last = clamp(Math.ceil(((end - from) / (to - from)) * width) - 1, width - 1);
    const bottom = clamp(Math.round(partOf(range, min ?? 0) * (height - 1)), height - 1);
    const top = clamp(Math.round(partOf(range, max ?? 0) * (height - 1)), height - 1);
    for (let x = first; x <= Math.max(first, last); x += 1)
      for (let y = bottom; y <= top; y += 1) dots[(height - 1 - y) * width + x] = 1;
  }
  const isSet = (x: number, y: number) => dots[y * width + x] === 1;
  return Array.from({ length: ROWS }, (_, row) =>
    Array.from({ length: columns }, (_, column) =>
      ascii ? (isSet(column, row) ? '*' : ' ') : brailleAt(isSet, column * 2, row * 4),
    ).join(''),
  );
}

const clamp = (value: number, max: number): number => Math.max(0, Math.min(max, value));

/** Bits of the dots of U+2800, by column and row. */
const BRAILLE = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
];

function brailleAt(isSet: (x: number, y: number) => boolean, x: number, y: number): string {
  let bits = 0;
  BRAILLE.forEach((rows, column) => {
    rows.forEach((bit, row) => {
      if (isSet(x + column, y + row)) bits |= bit;
    });
  });
  return bits === 0 ? ' ' : String.fromCodePoint(0x2800 + bits);
}

export function stateTotals(values: readonly ChartValue[]): Map<string, number> {
  const totals = new Map<string, number>();
  for (const { states } of values) for (const [name, ms] of states) totals.set(name, (totals.get(name) ?? 0) + ms);
  return totals;
}

const labelOf = (name: string): string => fitColumns(escapeForTerminal(name), MAX_LABEL);

/** A character for each column: full from half of its time on, light for less, and blank without the state. */
function stateBand(
  values: readonly ChartValue[],
  name: string,
  columns: number,
  { ascii, from, to }: ChartOptions,
): string {
  const each = (to - from) / columns;
  const lasted = new Float64Array(columns);
  for (const { start, end, states } of values) {
    const ms = states.find(([state]) => state === name)?.[1] ?? 0;
    if (ms === 0 || end <= start) continue;
    const [first, last] = [clamp(Math.floor((start - from) / each), columns - 1), clamp((end - from) / each, columns)];
    for (let column = first; column < last; column += 1) {
      const overlap = Math.min(end, from + (column + 1) * each) - Math.max(start, from + column * each);
      // The order of states within an interval is not known.
      lasted[column] = (lasted[column] ?? 0) + ms * (overlap / (end - start));
    }
  }
  const [full, light] = ascii ? ['#', '.'] : ['█', '░'];
  return Array.from(lasted, (ms) => (ms >= each / 2 ? full : ms > 0 ? light : ' ')).join('');
}

/** A line with marks, and one with the times at them: at the start, in the middle and at the end. */
function timeAxis(columns: number, { ascii, from, to, timeText }: ChartOptions): string[] {
  const middle = Math.floor(columns / 2);
  const [corner, line, mark] = ascii ? ['+', '-', '+'] : ['└', '─', '┴'];
  const marks = Array.from({ length: columns }, (_, n) => (n === middle || n === columns - 1 ? mark : line)).join('');
  const [start, center, end] = [timeText(from), timeText((from + to) / 2), timeText(to)];
  const space = columns + 1;
  const labels = Array.from<string>({ length: space }).fill(' ');
  const put = (text: string, at: number) => {
    labels.splice(at, text.length, ...text);
  };
  put(start, 0);
  const centerAt = middle + 1 - Math.floor(center.length / 2);
  const endAt = space - end.length;
  // Narrow terminals have no space for the middle, and very narrow ones for the end.
  if (centerAt > start.length + 1 && centerAt + center.length + 1 < endAt) put(center, centerAt);
  if (endAt > start.length) put(end, endAt);
  return [`${corner}${marks}`, labels.join('')];
}
