import { expect, it } from 'vitest';
import { chartRange, trendPath } from '../../../console/src/charts/trends.ts';

const MINUTE = 60_000;
const box = { from: 0, to: 240 * MINUTE, width: 100, height: 20, isBoolean: false, isStepped: false };
const point = (minutes: number, value: number) => ({ at: minutes * MINUTE, value });

it('a line of numbers fills the height, and is interrupted for more than an hour without one', () => {
  const path = trendPath([point(0, 10), point(15, 15), point(30, 15), point(60, 20), point(240, 15)], box);
  expect(path).toBe('M0.0 20.0h0.1L6.3 10.0L12.5 10.0L25.0 0.0M100.0 10.0h0.1');
});

it('numbers that are reported every few hours are joined', () => {
  expect(trendPath([point(0, 10), point(120, 20), point(240, 15)], box)).toBe('M0.0 20.0h0.1L50.0 0.0L100.0 10.0');
  expect(trendPath([point(0, 10), point(240, 20)], box)).toBe('M0.0 20.0h0.1L100.0 0.0');
});

it('a boolean lasts until the next one, and until now', () => {
  const path = trendPath([point(60, 1), point(120, 0)], { ...box, isBoolean: true, isStepped: true });
  expect(path).toBe('M25.0 0.0h0.1H50.0V20.0H100');
});

it('a constant is in the middle, and points outside of the time are left out', () => {
  expect(trendPath([point(-5, 3), point(12, 7), point(24, 7)], box)).toBe('M5.0 10.0h0.1L10.0 10.0');
  expect(trendPath([point(-5, 3), point(12, 7)], box)).toBe('');
});

it('the chart of a device with values of the last hour alone begins with that hour', () => {
  const now = 300 * MINUTE;
  expect(chartRange([], now)).toBe('1h');
  expect(chartRange([point(270, 1), point(285, 2)], now)).toBe('1h');
  expect(chartRange([point(240, 1), point(285, 2)], now)).toBeUndefined();
  expect(chartRange(undefined, now)).toBeUndefined();
});

it('a number that lasts has steps, and begins with the value before the time', () => {
  const stepped = { ...box, from: 60 * MINUTE, to: 300 * MINUTE, isStepped: true };
  expect(trendPath([point(0, 10), point(180, 20)], stepped)).toBe('M0.0 20.0h0.1H50.0V0.0H100');
  expect(trendPath([point(0, 10)], stepped)).toBe('M0.0 10.0h0.1H100');
  expect(trendPath([point(180, 10)], stepped)).toBe('');
});
