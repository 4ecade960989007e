import UPlot from 'uplot';
import type { Milliseconds } from '../../../src/domain/values.ts';
import { hasBand, isolatedPoints, type PlotLine } from './plot-data.ts';

// Options of uPlot: axes in the reader's language, and the colours of the page.

/** Width of the labels at the left, the same in all panes, so that their times are aligned. */
export const AXIS_PX = 52;
export const TIME_AXIS_PX = 40;
/** Right of the plotting area: half of the longest label of a time, whose tick may be at the edge. */
export const PADDING_PX = 26;
const FONT = '11px system-ui, sans-serif';
const DAY: Milliseconds = 86_400_000;

/** The value of a custom property of the page. */
export type ColourOf = (name: string) => string;

/** Number of colours in charts.css. */
const COLOURS = 8;
export const colourName = (colour: number): string => `--series-${(colour % COLOURS) + 1}`;

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const clockWithSeconds = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const month = new Intl.DateTimeFormat(undefined, { month: 'short', year: 'numeric' });

/** Labels of the time axis; the day is below the first time of it. */
export function timeLabels(times: readonly number[], distance: Milliseconds): string[] {
  if (distance >= 28 * DAY) return times.map((time) => month.format(time));
  if (distance >= DAY) return times.map((time) => day.format(time));
  const format = distance < 60_000 ? clockWithSeconds : clock;
  let shown = '';
  return times.map((time) => {
    const date = day.format(time);
    const isNew = date !== shown;
    shown = date;
    return isNew ? `${format.format(time)}\n${date}` : format.format(time);
  });
}

const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 2 });

/** Labels of the value axis that fit into `AXIS_PX`. */
export function valueLabels(values: readonly number[], distance: number): string[] {
  // A distance has two digits at most, as 2.5 has.
  const digits = Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(distance))));
  const largest = Math.max(...values.map(Math.abs), 0);
  return values.map((value) =>
    largest >= 100_000 ? compact.format(value) : value.toLocaleString(undefined, { maximumFractionDigits: digits }),
  );
}

const timeAxis = (colourOf: ColourOf, isShown: boolean): UPlot.Axis => ({
  size: isShown ? TIME_AXIS_PX : 0,
  gap: 4,
  space: 72,
  font: FONT,
  lineGap: 1.3,
  stroke: colourOf('--quiet'),
  grid: { stroke: colourOf('--line'), width: 1 },
  ticks: { show: isShown, stroke: colourOf('--line'), width: 1, size: 4 },
  values: (_, times, __, ___, distance) => (isShown ? timeLabels(times, distance) : times.map(() => '')),
});

const valueAxis = (colourOf: ColourOf): UPlot.Axis => ({
  size: AXIS_PX,
  gap: 4,
  space: 32,
  font: FONT,
  stroke: colourOf('--quiet'),
  grid: { stroke: colourOf('--line'), width: 1 },
  ticks: { show: false },
  values: (_, values, __, ___, distance) => valueLabels(values, distance),
});

/** Points are drawn if they have so much space, and otherwise only those without a neighbour. */
const POINT_SPACE_PX = 12;

function lineOptions(line: PlotLine, colourOf: ColourOf): UPlot.Series[] {
  const colour = colourOf(colourName(line.colour));
  const paths = line.isStepped ? { paths: UPlot.paths.stepped?.({ align: 1 }) as UPlot.Series.PathBuilder } : {};
  const hidden: UPlot.Series = { ...paths, width: 0, points: { show: false } };
  const shown: UPlot.Series = {
    ...paths,
    stroke: line.isCompared ? `color-mix(in srgb, ${colour} 65%, transparent)` : colour,
    width: line.isCompared ? 1.25 : 1.75,
    ...(line.isCompared && { dash: [5, 4] }),
    points: {
      size: 5,
      fill: colour,
      show: ({ bbox }, _, first, last) => (last - first) * POINT_SPACE_PX < bbox.width / devicePixelRatio,
      filter: (plot, index, show) => (show ? null : isolatedPoints(plot.data[index] ?? [])),
    },
  };
  return hasBand(line) ? [shown, hidden, hidden] : [shown];
}

function bandsOf(lines: readonly PlotLine[], colourOf: ColourOf): UPlot.Band[] {
  const bands: UPlot.Band[] = [];
  let index = 1;
  for (const line of lines) {
    const isBand = hasBand(line);
    const fill = `color-mix(in srgb, ${colourOf(colourName(line.colour))} 22%, transparent)`;
    if (isBand) bands.push({ series: [index + 2, index + 1], fill });
    index += isBand ? 3 : 1;
  }
  return bands;
}

export interface PlotStyle {
  width: number;
  height: number;
  colourOf: ColourOf;
  /** Whether the time axis has labels: that of the last pane. */
  showsTimes: boolean;
  isInteractive: boolean;
}

const common = ({ width, height, isInteractive }: PlotStyle): UPlot.Options => ({
  width,
  height,
  ms: 1,
  legend: { show: false },
  padding: [8, PADDING_PX, 0, 0],
  cursor: {
    show: isInteractive,
    y: false,
    drag: { x: isInteractive, y: false, setScale: false, dist: 4 },
    points: { show: false },
    bind: { dblclick: () => null },
  },
  series: [{}],
});

export const numberOptions = (lines: readonly PlotLine[], style: PlotStyle): UPlot.Options => ({
  ...common(style),
  scales: {
    x: { time: true },
    y: { range: (_, least, most) => (least === null ? [0, 1] : UPlot.rangeNum(least, most, 0.1, true)) },
  },
  axes: [timeAxis(style.colourOf, style.showsTimes), valueAxis(style.colourOf)],
  series: [{}, ...lines.flatMap((line) => lineOptions(line, style.colourOf))],
  bands: bandsOf(lines, style.colourOf),
});

/** A band of states, which a hook draws. */
export const stateOptions = (style: PlotStyle): UPlot.Options => ({
  ...common(style),
  padding: [2, PADDING_PX, 0, 0],
  scales: { x: { time: true }, y: { range: [0, 1] } },
  axes: [timeAxis(style.colourOf, style.showsTimes), { size: AXIS_PX, values: () => [], splits: () => [] }],
  series: [{}, { stroke: 'transparent', points: { show: false } }],
});
