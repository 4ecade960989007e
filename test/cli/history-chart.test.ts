import { describe, expect, it } from 'vitest';
import { type ChartValue, chartLines, chartNumber } from '../../src/cli/history-chart.ts';
import { columnsOf } from '../../src/cli/terminal-text.ts';

const HOUR = 3_600_000;
const axis = { from: 0, to: 24 * HOUR, timeText: (at: number) => `${Math.round(at / HOUR)} h` };
const numbers = (start: number, min: number, max = min, end = start + HOUR): ChartValue => ({
  ...{ start, end, min, max, states: [] },
});
const states = (start: number, end: number, ...all: [string, number][]): ChartValue => ({
  ...{ start, end, min: null, max: null, states: all },
});

describe('a chart of numbers', () => {
  const values = Array.from({ length: 24 }, (_, n) => numbers(n * HOUR, n, n + 1)).filter((_, n) => n < 6 || n > 11);

  it('is drawn from minimum to maximum, with gaps where nothing was reported', () => {
    expect(chartLines(values, { ...axis, width: 28, ascii: true })).toEqual([
      '24 |                      **',
      '   |                    ***',
      '   |                  ***',
      '   |                ***',
      '   |              ***',
      '   |            ***',
      '12 |            *',
      '   |',
      '   |',
      '   |    **',
      '   |  ***',
      '   |***',
      ' 0 |*',
      '   +------------+----------+',
      '   0 h        12 h      24 h',
    ]);
  });

  it('has no line wider than the terminal, for any width and any values', () => {
    for (const width of [20, 40, 80, 200]) {
      for (const ascii of [true, false]) {
        for (const extreme of [
          [-1e300, 1e300],
          [-Number.MAX_VALUE, Number.MAX_VALUE],
          [5, 5],
          [1e-9, 2e-9],
        ]) {
          const [low = 0, high = 0] = extreme;
          const lines = chartLines([numbers(0, low, high), numbers(-HOUR, low), numbers(30 * HOUR, high)], {
            ...{ ...axis, width, ascii },
          });
          expect(lines.length).toBe(15);
          for (const line of lines)
            expect(columnsOf(line), `${width} ${line}`).toBeLessThanOrEqual(Math.max(width, 24));
          if (ascii) expect(lines.join('')).toMatch(/^[\x20-\x7e]*$/);
          else expect(lines.join('')).toMatch(/[\u2801-\u28ff]/);
        }
      }
    }
  });

  it('is empty without values', () => {
    expect(chartLines([], { ...axis, width: 80, ascii: false })).toEqual([]);
  });
});

describe('a chart of states', () => {
  it('has a band for each, longest first, with the part of the time', () => {
    const values = [states(0, 12 * HOUR, ['on', 12 * HOUR]), states(12 * HOUR, 18 * HOUR, ['off', 6 * HOUR])];
    expect(chartLines(values, { ...axis, width: 29, ascii: true })).toEqual([
      ' on |############',
      'off |            ######',
      '    +------------+----------+',
      '    0 h        12 h      24 h',
    ]);
    const mixed = [states(0, 24 * HOUR, ['on', 20 * HOUR], ['off', 4 * HOUR])];
    const [on, off] = chartLines(mixed, { ...axis, width: 15, ascii: false });
    expect([on, off]).toEqual([' on │██████████', 'off │░░░░░░░░░░']);
  });

  it('shows text of a device safely, and leaves out the shortest of many states', () => {
    const all = Array.from({ length: 10 }, (_, n): [string, number] => [`\u001b[31m${n}`, (10 - n) * HOUR]);
    const lines = chartLines([states(0, 55 * HOUR, ...all)], { ...axis, to: 55 * HOUR, width: 60, ascii: false });
    expect(lines[0]).toContain('\\u{1b}[31m0 │');
    expect(lines.join('')).not.toContain('\u001b');
    expect(lines.at(-1)).toBe('2 other states are not shown');
  });
});

it.each([
  [21.456, 3, '21.46'],
  [21.4, 300, '21'],
  [0.001_234, 0.002, '0.00123'],
  [1234.5, 0, '1234.5'],
  [2e12, 1e12, '2.000e+12'],
])('the number %d in a range of %d is %s', (value, range, text) => {
  expect(chartNumber(value, range)).toBe(text);
});
