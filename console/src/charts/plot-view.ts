import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { serverNow } from '../ui/clock.ts';
import { pageColour } from '../ui/colours.ts';
import { type TimeWindow, windowBetween } from './chart-window.ts';
import { bindGestures } from './gestures.ts';
import { alignedData, hasBand, type PlotLine } from './plot-data.ts';
import { type ColourOf, numberOptions, stateOptions } from './plot-options.ts';
import type { StateSegment } from './points.ts';
import { drawStates, type StateColours } from './state-band.ts';

/** A part of a chart with its own axis of values: the lines of one unit, or the states of one property. */
export type PaneContent =
  | { kind: 'numbers'; lines: readonly PlotLine[] }
  | { kind: 'states'; segments: readonly StateSegment[]; colours: StateColours };

export interface PlotContent {
  pane: PaneContent;
  window: TimeWindow;
  /** Time of the cursor, in milliseconds; null without one. */
  cursor: number | null;
  /** Times of events, which are drawn as lines. */
  marks: readonly number[];
  height: number;
  showsTimes: boolean;
}

export interface PlotCallbacks {
  /** The pointer is at this time, or has left. */
  onCursor(time: number | null): void;
  onWindow(window: TimeWindow): void;
  /** A double click. */
  onReset(): void;
}

/** A uPlot in an element: drawn again for other lines, another theme or another size, and otherwise updated. */
export class PlotView {
  readonly #element: HTMLElement;
  readonly #callbacks: PlotCallbacks | null;
  readonly #release: () => void;
  #content: PlotContent;
  #plot: UPlot | null = null;
  #unbind: (() => void) | null = null;
  #structure = '';
  /** True while the cursor is set by the content and not by the pointer. */
  #isUpdating = false;

  /** Without callbacks, the plot does not react to the pointer. */
  constructor(element: HTMLElement, content: PlotContent, callbacks: PlotCallbacks | null) {
    this.#element = element;
    this.#content = content;
    this.#callbacks = callbacks;
    const redraw = (): void => this.#create();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const themed = new MutationObserver(redraw);
    const sized = new ResizeObserver(() => this.#resize());
    dark.addEventListener('change', redraw);
    themed.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    sized.observe(element);
    this.#release = () => {
      dark.removeEventListener('change', redraw);
      themed.disconnect();
      sized.disconnect();
    };
    this.#create();
  }

  show(content: PlotContent): void {
    const before = this.#content;
    this.#content = content;
    if (this.#plot === null || structureOf(content) !== this.#structure) {
      this.#create();
      return;
    }
    if (content.height !== before.height) this.#resize();
    const { from, to } = content.window;
    this.#update({
      isNew: content.pane !== before.pane,
      isMoved: before.window.from !== from || before.window.to !== to || before.marks !== content.marks,
    });
  }

  destroy(): void {
    this.#release();
    this.#clear();
  }

  #clear(): void {
    this.#unbind?.();
    this.#plot?.destroy();
    this.#plot = null;
  }

  #create(): void {
    this.#clear();
    const { pane, height, showsTimes } = this.#content;
    const colours = new Map<string, string>();
    // A style is computed once for all states of a drawing.
    const colourOf: ColourOf = (name) => {
      const known = colours.get(name) ?? pageColour(name);
      colours.set(name, known);
      return known;
    };
    const style = {
      ...{ width: Math.max(1, this.#element.clientWidth), height, colourOf, showsTimes },
      isInteractive: this.#callbacks !== null,
    };
    const options = pane.kind === 'numbers' ? numberOptions(pane.lines, style) : stateOptions(style);
    const data = dataOf(pane, this.#content.window);
    this.#plot = new UPlot({ ...options, hooks: this.#hooks(colourOf) }, data, this.#element);
    this.#structure = structureOf(this.#content);
    if (this.#callbacks !== null) this.#unbind = bindGestures(this.#plot, this.#callbacks);
    this.#update({ isNew: false, isMoved: true });
  }

  #hooks(colourOf: ColourOf): UPlot.Hooks.Arrays {
    return {
      draw: [
        (plot) => {
          const { pane, marks } = this.#content;
          if (pane.kind === 'states')
            drawStates(plot, pane.segments, { colours: pane.colours, colourOf, now: serverNow() });
          drawMarks(plot, marks, colourOf);
        },
      ],
      setCursor: [
        (plot) => {
          if (this.#isUpdating || plot.cursor.event === undefined) return;
          const { left = -1 } = plot.cursor;
          this.#callbacks?.onCursor(left < 0 ? null : plot.posToVal(left, 'x'));
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width <= 0) return;
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          this.#callbacks?.onWindow(windowBetween(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')));
        },
      ],
    };
  }

  #update({ isNew, isMoved }: { isNew: boolean; isMoved: boolean }): void {
    const plot = this.#plot;
    if (plot === null) return;
    const { pane, window, cursor } = this.#content;
    this.#isUpdating = true;
    if (isNew || isMoved) {
      plot.batch(() => {
        if (isNew || lastsUntilNow(pane)) plot.setData(dataOf(pane, window), false);
        plot.setScale('x', { min: window.from, max: window.to });
      });
    }
    const left = cursor === null ? -10 : plot.valToPos(cursor, 'x');
    if (Math.abs((plot.cursor.left ?? -10) - left) > 0.5) plot.setCursor({ left, top: left < 0 ? -10 : 0 });
    this.#isUpdating = false;
  }

  #resize(): void {
    const width = this.#element.clientWidth;
    const { height } = this.#content;
    if (width > 0 && (this.#plot?.width !== width || this.#plot.height !== height))
      this.#plot?.setSize({ width, height });
  }
}

/** A plot with another structure is created again. */
const structureOf = ({ pane, showsTimes }: PlotContent): string =>
  JSON.stringify([
    showsTimes,
    pane.kind === 'states' ||
      pane.lines.map((line) => [line.key, line.colour, line.isCompared, line.isStepped, hasBand(line)]),
  ]);

/** Whether the end of the data is that of the window. */
const lastsUntilNow = (pane: PaneContent): boolean =>
  pane.kind === 'states' || pane.lines.some(({ isStepped }) => isStepped);

/** A pane of states has no values; its times set the scale. */
const dataOf = (pane: PaneContent, { from, to }: TimeWindow): UPlot.AlignedData =>
  pane.kind === 'numbers'
    ? alignedData(pane.lines, { from, until: Math.min(to, serverNow()) })
    : [
        [from, to],
        [null, null],
      ];

function drawMarks(plot: UPlot, marks: readonly number[], colourOf: ColourOf): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colourOf('--strong-line');
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  for (const mark of marks) {
    const left = Math.round(plot.valToPos(mark, 'x', true));
    if (left < bbox.left || left > bbox.left + bbox.width) continue;
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
  }
  ctx.stroke();
  ctx.restore();
}
