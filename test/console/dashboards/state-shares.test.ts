import { describe, expect, it } from 'vitest';
import type { ShownState, StateSegment } from '../../../console/src/charts/points.ts';
import { shownStateName, shownStates, statesInWindow } from '../../../console/src/dashboards/state-shares.ts';

const segment = (from: number, to: number, ...shares: [ShownState, number][]): StateSegment => ({
  ...{ from, to },
  shares: shares.map(([state, share]) => ({ state, share })),
});
const window = { from: 100, to: 200 };
const sharesOf = (...segments: StateSegment[]) =>
  shownStates(segments, window).map(({ state, share }) => `${state} ${share.replaceAll('\u00a0', ' ')}`);

describe('the states of a tile', () => {
  it('are the parts of its time, the last one until now', () => {
    const segments = [segment(50, 150, [true, 1]), segment(150, Number.POSITIVE_INFINITY, [false, 1])];
    expect(statesInWindow(segments, window)).toEqual([
      { state: true, from: 0, width: 0.5 },
      { state: false, from: 0.5, width: 0.5 },
    ]);
    expect(statesInWindow([segment(0, 50, [true, 1])], window)).toEqual([]);
  });

  it('are next to each other if an interval had several', () => {
    expect(statesInWindow([segment(100, 140, ['heat', 0.75], ['off', 0.25])], window)).toEqual([
      { state: 'heat', from: 0, width: 0.3 },
      { state: 'off', from: 0.3, width: 0.1 },
    ]);
  });

  it('are left out if they did not last', () => {
    const segments = [segment(100, 140, ['heat', 1], ['eco', 0]), segment(140, 200, ['off', 1])];
    expect(statesInWindow(segments, window).map(({ from }) => from)).toEqual([0, 0.4]);
    expect(sharesOf(...segments)).toEqual(['off 60 %', 'heat 40 %']);
  });

  it('have their shares of the known time, the longest first', () => {
    expect(sharesOf(segment(100, 120, ['off', 1]), segment(120, 180, ['heat', 1]))).toEqual(['heat 75 %', 'off 25 %']);
    expect(sharesOf(segment(100, 199.9, [true, 1]), segment(199.9, 200, [false, 1]))).toEqual([
      'true 100 %',
      'false < 1 %',
    ]);
  });

  it('are summed up if they are many', () => {
    const many = ['a', 'b', 'c', 'd'].map((state, n) => segment(100 + 10 * n, 110 + 10 * n, [state, 1]));
    expect(sharesOf(...many, segment(140, 160, ['e', 1]))).toEqual(['e 33 %', 'a 17 %', 'null 50 %']);
    expect(sharesOf(segment(100, 180, [null, 0.9], ['a', 0.1]))).toEqual(['a 10 %', 'null 90 %']);
  });

  it('have the names that the property gives them', () => {
    expect([shownStateName('locked', false), shownStateName('heating', true), shownStateName('mode', 'eco')]).toEqual([
      ...['unlocked', 'yes', 'eco'],
    ]);
    expect(shownStateName('mode', null)).toBe('other');
  });
});
