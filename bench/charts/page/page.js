import { PlotView } from '../../../console/src/charts/plot-view.ts';
import '../../../console/src/style.css';
import '../../../console/src/charts/charts.css';

// Draws lines of random walks, with a gap in every thousand points, and measures each drawing.

const START = Date.UTC(2026, 0, 1);
const DISTANCE_MS = 60_000;

/** Numbers between 0 and 1 that are the same in each run. */
let state = 12_345;
function random() {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
}

function numbersOf(count) {
  let value = 20;
  let at = START;
  return Array.from({ length: count }, (_, n) => {
    value += random() - 0.5;
    at += n % 1_000 === 999 ? 30 * DISTANCE_MS : DISTANCE_MS;
    return { at, value, min: value - 1, max: value + 1, last: value, count: 60 };
  });
}

const contentOf = ({ lines, step, points }) => ({
  pane: {
    kind: 'numbers',
    lines: Array.from({ length: lines }, (_, n) => ({
      ...{ key: `${n}`, colour: n, shift: 0, isCompared: false, isStepped: false },
      points: { step, stepText: '1m', numbers: numbersOf(points), segments: [], confirmedTo: 0 },
    })),
  },
  window: { from: START, to: START + points * 1.1 * DISTANCE_MS },
  ...{ cursor: null, marks: [], height: 300, showsTimes: true },
});

globalThis.measure = async ({ lines, step, points, tries }) => {
  const place = document.querySelector('#plot');
  place.replaceChildren();
  const callbacks = { onCursor() {}, onWindow() {}, onReset() {} };
  const view = new PlotView(place, contentOf({ lines, step, points: 10 }), callbacks);
  const times = [];
  for (let n = 0; n < tries; n += 1) {
    const content = contentOf({ lines, step, points });
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const before = performance.now();
    view.show(content);
    // Waits until everything is drawn.
    place.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1);
    times.push(performance.now() - before);
  }
  view.destroy();
  return times;
};
