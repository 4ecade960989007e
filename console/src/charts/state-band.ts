import type UPlot from 'uplot';
import { type ColourOf, colourName } from './plot-options.ts';
import type { ShownState, StateSegment } from './points.ts';

// Draws texts and booleans as a band: each state has its colour and, where it fits, its name.

export const stateName = (state: ShownState): string =>
  state === null ? 'other' : typeof state === 'boolean' ? (state ? 'yes' : 'no') : state;

/** A text may have another value in each report, and a page is open for days. */
const MAX_KNOWN = 100;

/** States in the order in which they appear, `false` without a colour; their colours stay the same as time goes on. */
export class StateColours {
  readonly #numbers = new Map<ShownState, number>();

  /** Number of the colour; null for `false` and for states that are not named, which have none. */
  numberOf(state: ShownState): number | null {
    if (state === false || state === null) return null;
    const known = this.#numbers.get(state) ?? this.#numbers.size;
    this.#numbers.set(state, known);
    return known;
  }

  /** Gives the states of these segments their colours. Of more than `MAX_KNOWN` those that are no longer shown are dropped. */
  add(segments: readonly StateSegment[]): this {
    if (this.#numbers.size > MAX_KNOWN) this.#numbers.clear();
    for (const { shares } of segments) for (const { state } of shares) this.numberOf(state);
    return this;
  }

  /** The states that have a colour. */
  known(): readonly (readonly [ShownState, number])[] {
    return [...this.#numbers];
  }
}

const MIN_LABEL_PX = 28;

/** Draws the segments into the plotting area of a plot, up to `now`. */
export function drawStates(
  plot: UPlot,
  segments: readonly StateSegment[],
  { colours, colourOf, now }: { colours: StateColours; colourOf: ColourOf; now: number },
): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  const [least, most] = [plot.scales.x?.min ?? 0, plot.scales.x?.max ?? 0];
  for (const { from, to, shares } of segments) {
    const end = Math.min(to, now, most);
    if (end <= least || from >= most || end <= from) continue;
    const left = Math.max(bbox.left, plot.valToPos(from, 'x', true));
    const width = Math.max(devicePixelRatio, plot.valToPos(end, 'x', true) - left);
    let top = bbox.top;
    for (const { state, share } of shares) {
      const box = { left, top, width, height: bbox.height * share };
      drawState(ctx, state, box, { colours, colourOf });
      top += box.height;
    }
  }
  ctx.restore();
}

interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

function drawState(
  ctx: CanvasRenderingContext2D,
  state: ShownState,
  { left, top, width, height }: Box,
  { colours, colourOf }: { colours: StateColours; colourOf: ColourOf },
): void {
  const number = colours.numberOf(state);
  const colour = number === null ? colourOf('--strong-line') : colourOf(colourName(number));
  ctx.fillStyle = `color-mix(in srgb, ${colour} ${number === null ? 10 : 38}%, transparent)`;
  ctx.fillRect(left, top, width, height);
  // The edges separate two states with similar colours.
  ctx.fillStyle = colour;
  ctx.fillRect(left, top, width, (number === null ? 1 : 3) * devicePixelRatio);
  ctx.fillRect(left, top, devicePixelRatio, height);
  const label = stateName(state);
  const space = width - 10 * devicePixelRatio;
  if (width < MIN_LABEL_PX * devicePixelRatio || height < 14 * devicePixelRatio) return;
  if (ctx.measureText(label).width > space) return;
  ctx.fillStyle = colourOf('--text');
  ctx.fillText(label, left + 5 * devicePixelRatio, top + height / 2 + devicePixelRatio);
}
