import type UPlot from 'uplot';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { TimeWindow } from '../../../console/src/charts/chart-window.ts';
import { bindGestures } from '../../../console/src/charts/gestures.ts';

const LEFT = 50;
const WIDTH = 1_000;
const HOUR = 3_600_000;
const START: TimeWindow = { from: 1_000 * HOUR, to: 1_001 * HOUR };

describe('a plot that is moved', () => {
  let over: EventTarget;
  let shown: TimeWindow;
  let resets: number;
  let release: () => void;

  beforeEach(() => {
    vi.stubGlobal('devicePixelRatio', 2);
    over = new EventTarget();
    shown = START;
    resets = 0;
    const scales = { x: { min: START.from, max: START.to } };
    const plot = {
      ...{ over, root: new EventTarget(), rect: { left: LEFT }, bbox: { width: WIDTH * 2 }, scales },
      posToVal: (left: number) => shown.from + (left / WIDTH) * (shown.to - shown.from),
    } as unknown as UPlot;
    release = bindGestures(plot, {
      onCursor: () => {},
      onWindow(window) {
        shown = window;
        scales.x = { min: window.from, max: window.to };
      },
      onReset: () => {
        resets += 1;
      },
    });
    return () => {
      vi.unstubAllGlobals();
    };
  });

  const fire = (type: string, members: object): Event => {
    const event = Object.assign(new Event(type, { cancelable: true }), members);
    over.dispatchEvent(event);
    return event;
  };
  const finger = (type: 'down' | 'move' | 'up' | 'cancel', pointerId: number, clientX = 0, pointerType = 'touch') =>
    fire(`pointer${type}`, { pointerId, pointerType, clientX });
  const length = () => shown.to - shown.from;
  /** The time below a position on the screen. */
  const timeAt = (clientX: number) => shown.from + ((clientX - LEFT) / WIDTH) * length();

  it('by one finger keeps its length', () => {
    finger('down', 1, LEFT + 500);
    finger('move', 1, LEFT + 600);
    finger('up', 1);
    expect(shown).toEqual({ from: START.from - HOUR / 10, to: START.to - HOUR / 10 });
    finger('move', 1, LEFT + 900);
    expect(shown.from).toBe(START.from - HOUR / 10);
  });

  it('by two fingers that move apart is zoomed in around their middle', () => {
    finger('down', 1, LEFT + 400);
    finger('down', 2, LEFT + 600);
    const middle = timeAt(LEFT + 500);
    finger('move', 1, LEFT + 300);
    finger('move', 2, LEFT + 700);
    expect(length()).toBe(HOUR / 2);
    expect(timeAt(LEFT + 500)).toBe(middle);
    finger('move', 1, LEFT + 450);
    finger('move', 2, LEFT + 550);
    expect(length()).toBe(2 * HOUR);
  });

  it('continues with the finger that stays, without a jump', () => {
    finger('down', 1, LEFT + 400);
    finger('down', 2, LEFT + 600);
    finger('move', 2, LEFT + 800);
    finger('cancel', 2);
    const before = shown;
    finger('move', 1, LEFT + 400);
    expect(shown).toEqual(before);
    finger('move', 1, LEFT + 500);
    expect(shown.from).toBe(before.from - length() / 10);
  });

  it('is not moved by the buttons of a mouse, with which a part is selected', () => {
    finger('down', 1, LEFT + 400, 'mouse');
    finger('move', 1, LEFT + 600, 'mouse');
    expect(shown).toEqual(START);
  });

  it('is zoomed by Ctrl with the wheel at the pointer, moved by a sideways wheel, and otherwise the page scrolls', () => {
    const at = timeAt(LEFT + 250);
    expect(fire('wheel', { ctrlKey: true, deltaX: 0, deltaY: -100, clientX: LEFT + 250 }).defaultPrevented).toBe(true);
    expect(length()).toBeCloseTo(HOUR / 1.2, -1);
    expect(timeAt(LEFT + 250)).toBeCloseTo(at, -1);
    const before = shown;
    fire('wheel', { ctrlKey: false, shiftKey: false, deltaX: 100, deltaY: 0, clientX: LEFT });
    expect(shown.from).toBeGreaterThan(before.from);
    expect(fire('wheel', { ctrlKey: false, deltaX: 0, deltaY: 100 }).defaultPrevented).toBe(false);
  });

  it('is reset by a double click, until it is released', () => {
    fire('dblclick', {});
    release();
    fire('dblclick', {});
    expect(resets).toBe(1);
  });
});
