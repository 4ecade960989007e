import { csvRecord } from '../../../src/domain/csv.ts';
import { pageColour } from '../ui/colours.ts';
import { saveBlob, saveFile } from '../ui/list-view.ts';
import { fullTime } from '../ui/time.tsx';
import type { TimeWindow } from './chart-window.ts';
import { colourName } from './plot-options.ts';
import { pointRows } from './readout.ts';
import type { ChartPane, ShownSeries } from './use-chart.ts';

// Files of what a chart shows.

/** A record for each shown point, newest first. Times are in ISO 8601. */
export function chartCsv(series: readonly ShownSeries[], window: TimeWindow): string {
  const records = pointRows(series, window).map(({ at, series: one, value, min, max }) =>
    csvRecord([
      ...[new Date(at).toISOString(), one.deviceName, one.deviceId, one.property, one.unit ?? ''],
      ...[value, min, max],
    ]),
  );
  return [
    csvRecord(['Time', 'Device', 'Device ID', 'Property', 'Unit', 'Value', 'Minimum', 'Maximum']),
    ...records,
  ].join('');
}

const fileName = (series: readonly ShownSeries[]): string =>
  (series[0] === undefined ? 'chart' : `${series[0].deviceName} ${series[0].label}`)
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-|-$/g, '')
    .toLowerCase();

export const saveChartCsv = (series: readonly ShownSeries[], window: TimeWindow): void =>
  saveFile(`${fileName(series)}.csv`, 'text/csv;charset=utf-8', chartCsv(series, window));

interface Picture {
  panes: readonly ChartPane[];
  series: readonly ShownSeries[];
  window: TimeWindow;
  title: string;
  nameOf(series: ShownSeries): string;
}

const MARGIN = 16;
const LINE = 22;

/** Saves the panes below `element` as one picture, in the colours of the page, with their title, legend and times. */
export function saveChartPicture(element: HTMLElement, { panes, series, window, title, nameOf }: Picture): void {
  const plots = [...element.querySelectorAll('canvas')];
  const scale = devicePixelRatio;
  const canvas = document.createElement('canvas');
  const heights = plots.map(({ height }) => height / scale + LINE);
  canvas.width = (Math.max(0, ...plots.map(({ width }) => width / scale)) + 2 * MARGIN) * scale;
  canvas.height = (heights.reduce((sum, height) => sum + height, 0) + 2 * LINE + 2 * MARGIN) * scale;
  const context = canvas.getContext('2d');
  if (context === null) return;
  context.scale(scale, scale);
  context.fillStyle = pageColour('--panel');
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.textBaseline = 'middle';
  let top = MARGIN;
  const write = (text: string, font: string, colour: string, left = MARGIN): number => {
    context.font = font;
    context.fillStyle = pageColour(colour);
    context.fillText(text, left, top + LINE / 2);
    return left + context.measureText(text).width;
  };
  write(title, '600 15px system-ui, sans-serif', '--text');
  top += LINE;
  write(`${fullTime(window.from)} – ${fullTime(window.to)}`, '12px system-ui, sans-serif', '--quiet');
  top += LINE;
  for (const [index, plot] of plots.entries()) {
    let left = MARGIN;
    for (const one of panes[index]?.series ?? []) {
      left = write('■ ', '12px system-ui, sans-serif', colourName(one.colour), left);
      const unit = one.unit === undefined ? '' : ` (${one.unit})`;
      left = write(nameOf(one) + unit, '12px system-ui, sans-serif', '--text', left) + 14;
    }
    context.drawImage(plot, MARGIN, top + LINE, plot.width / scale, plot.height / scale);
    top += heights[index] ?? 0;
  }
  canvas.toBlob((file) => file !== null && saveBlob(`${fileName(series)}.png`, file), 'image/png');
}
