import type UPlot from 'uplot';
import { panned, type TimeWindow, zoomed } from './chart-window.ts';

interface GestureCallbacks {
  onCursor(time: number | null): void;
  onWindow(window: TimeWindow): void;
  onReset(): void;
}

/** Zoom of a step of the wheel. */
const WHEEL_ZOOM = 1.2;

/**
 * Pan and zoom of a plot: a drag with Shift, a horizontal wheel, or one finger pans; Ctrl with the wheel, or two fingers,
 * zoom; a double click resets. uPlot itself selects a range with the mouse. Returns the function that removes the listeners.
 */
export function bindGestures(plot: UPlot, callbacks: GestureCallbacks): () => void {
  const touch = new Touch(plot, callbacks);
  const removed = new AbortController();
  const { signal } = removed;
  const { over } = plot;
  over.addEventListener('wheel', (event) => onWheel(plot, callbacks, event), { passive: false, signal });
  over.addEventListener('dblclick', () => callbacks.onReset(), { signal });
  over.addEventListener('pointerdown', (event) => touch.start(event), { signal });
  over.addEventListener('pointermove', (event) => touch.move(event), { signal });
  for (const type of ['pointerup', 'pointercancel'] as const)
    over.addEventListener(type, (event) => touch.end(event), { signal });
  // Before uPlot's own listener, which would begin a selection.
  plot.root.addEventListener('mousedown', (event) => event.shiftKey && startMousePan(plot, callbacks, event), {
    capture: true,
    signal,
  });
  return () => removed.abort();
}

const windowOf = ({ scales: { x } }: UPlot): TimeWindow => ({ from: x?.min ?? 0, to: x?.max ?? 1 });

const widthOf = ({ bbox }: UPlot): number => bbox.width / devicePixelRatio;

function onWheel(plot: UPlot, { onWindow }: GestureCallbacks, event: WheelEvent): void {
  const isPan = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
  // Without a key the wheel scrolls the page.
  if (!event.ctrlKey && !isPan) return;
  event.preventDefault();
  if (event.ctrlKey) {
    const at = plot.posToVal(event.clientX - plot.rect.left, 'x');
    onWindow(zoomed(windowOf(plot), event.deltaY > 0 ? WHEEL_ZOOM : 1 / WHEEL_ZOOM, at));
  } else onWindow(panned(windowOf(plot), (event.deltaX || event.deltaY) / widthOf(plot)));
}

function startMousePan(plot: UPlot, { onWindow }: GestureCallbacks, start: MouseEvent): void {
  start.stopPropagation();
  start.preventDefault();
  const window = windowOf(plot);
  const ended = new AbortController();
  const { signal } = ended;
  const move = ({ clientX }: MouseEvent): void => onWindow(panned(window, (start.clientX - clientX) / widthOf(plot)));
  document.addEventListener('mousemove', move, { signal });
  document.addEventListener('mouseup', () => ended.abort(), { signal });
}

/** Fingers on a plot. A movement up or down scrolls the page (`touch-action` in charts.css). */
class Touch {
  readonly #plot: UPlot;
  readonly #callbacks: GestureCallbacks;
  /** Horizontal positions, by pointer. */
  readonly #fingers = new Map<number, number>();
  /** The window, and the positions of the fingers, when the last one was set down or lifted. */
  #start: { window: TimeWindow; at: readonly number[] } | null = null;

  constructor(plot: UPlot, callbacks: GestureCallbacks) {
    this.#plot = plot;
    this.#callbacks = callbacks;
  }

  start({ pointerId, pointerType, clientX }: PointerEvent): void {
    if (pointerType !== 'touch') return;
    this.#fingers.set(pointerId, clientX);
    this.#restart();
    this.#callbacks.onCursor(this.#timeAt(clientX));
  }

  move({ pointerId, clientX }: PointerEvent): void {
    const start = this.#start;
    if (start === null || !this.#fingers.has(pointerId)) return;
    this.#fingers.set(pointerId, clientX);
    const [one = 0, other] = [...this.#fingers.values()];
    const [oneStart = 0, otherStart] = start.at;
    if (other === undefined || otherStart === undefined) {
      this.#callbacks.onWindow(panned(start.window, (oneStart - one) / widthOf(this.#plot)));
      return;
    }
    const factor = Math.max(1, Math.abs(oneStart - otherStart)) / Math.max(1, Math.abs(one - other));
    const { from, to } = start.window;
    const middle = (oneStart + otherStart) / 2 - this.#plot.rect.left;
    this.#callbacks.onWindow(zoomed(start.window, factor, from + (middle / widthOf(this.#plot)) * (to - from)));
  }

  end({ pointerId }: PointerEvent): void {
    if (!this.#fingers.delete(pointerId)) return;
    this.#restart();
  }

  #restart(): void {
    const at = [...this.#fingers.values()];
    this.#start = at.length === 0 ? null : { window: windowOf(this.#plot), at };
  }

  #timeAt = (clientX: number): number => this.#plot.posToVal(clientX - this.#plot.rect.left, 'x');
}
