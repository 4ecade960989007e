import { describe, expect, it } from 'vitest';
import {
  describeRates,
  minuteOf,
  minuteTicks,
  noRates,
  WINDOW_S,
  windowOf,
  withGap,
  withSample,
} from '../../../console/src/home/rate-window.ts';

const noon = Date.UTC(2026, 2, 1, 12);
const values = (messages: number) => ({ messages, turns: 1, refusals: 0 });

describe('the window of rates', () => {
  it('keeps five minutes', () => {
    let rates = noRates;
    for (let second = 0; second <= 400; second += 2) rates = withSample(rates, noon + second * 1_000, values(second));
    expect(rates.times).toHaveLength(WINDOW_S / 2);
    expect(rates.messages).toHaveLength(WINDOW_S / 2);
    expect(rates.messages.at(-1)).toBe(400);
    expect(windowOf(rates, noon / 1_000 + 900)).toEqual([noon / 1_000 + 100, noon / 1_000 + 400]);
  });

  it('ends now before the first sample', () => {
    expect(windowOf(noRates, noon / 1_000)).toEqual([noon / 1_000 - WINDOW_S, noon / 1_000]);
  });

  it('has null where no values are known, with a start and an end however long that lasts', () => {
    let rates = withSample(noRates, noon, values(3));
    for (let second = 2; second <= 20; second += 2) rates = withGap(rates, noon + second * 1_000);
    rates = withSample(rates, noon + 22_000, values(4));
    expect(rates.messages).toEqual([3, null, null, 4]);
    expect(rates.times.map((time) => time - noon / 1_000)).toEqual([0, 2, 20, 22]);
  });

  it('is described with its times, extremes and gaps', () => {
    let rates = withSample(noRates, noon, values(3));
    expect(describeRates(noRates, 'messages')).toBe('no values yet');
    const time = minuteOf(noon / 1_000);
    expect(describeRates(rates, 'messages')).toBe(`from ${time} to ${time}; now 3.0; lowest 3.0; highest 3.0`);
    rates = withGap(rates, noon + 10_000);
    expect(describeRates(rates, 'messages')).toBe(
      `from ${time} to ${time}; now unknown; lowest 3.0; highest 3.0; no values for 10 s`,
    );
    rates = withSample(rates, noon + 12_000, values(40));
    expect(describeRates(rates, 'messages')).toBe(
      `from ${time} to ${time}; now 40; lowest 3.0; highest 40; no values for 12 s`,
    );
  });

  it('has ticks at whole minutes, as many as fit', () => {
    const from = noon / 1_000 + 10;
    const offsets = (width: number) => minuteTicks(from, from + WINDOW_S, width).map((tick) => tick - noon / 1_000);
    expect(offsets(400)).toEqual([60, 120, 180, 240, 300]);
    expect(offsets(200)).toEqual([120, 240]);
    expect(offsets(10)).toEqual([300]);
  });
});
