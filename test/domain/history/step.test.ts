import { describe, expect, it } from 'vitest';
import { CHOSEN_POINTS, chooseStep, rollupFor } from '../../../src/domain/history/step.ts';
import { readStep } from '../../../src/domain/history/step-length.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

describe('the step that is chosen', () => {
  it.each([
    ['the shortest, if the samples of the range are retained', HOUR, 0, '5s'],
    ['at least a minute, if they are not', HOUR, 1, '1m'],
    ['longer for a longer range', 30 * DAY, 0, '1h'],
    ['the longest, if no step has few enough intervals', 100_000 * DAY, 0, '30d'],
  ])('is %s', (_, length, samplesFrom, step) => {
    expect(chooseStep(0, length, samplesFrom)).toBe(step);
  });

  it('divides the range into at most as many intervals as wanted', () => {
    expect(chooseStep(0, HOUR, 0, 60)).toBe('1m');
    expect(HOUR / readStep(chooseStep(0, HOUR, 0))).toBeLessThanOrEqual(CHOSEN_POINTS);
  });
});

describe('the roll-up that is read for a step', () => {
  it.each([
    ['30s', null],
    ['1m', '1m'],
    ['30m', '15m'],
    ['2h', '1h'],
    ['7d', '1d'],
  ])('of %s is %s', (step, rollup) => {
    expect(rollupFor(readStep(step))).toBe(rollup);
  });
});

it.each(['', '0s', '5', '5w', '-1m', '123456s'])('%j is not a step', (text) => {
  expect(() => readStep(text)).toThrow('not a step');
});
