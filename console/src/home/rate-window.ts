import { names, type Series } from './counters.ts';

// The last five minutes of the rates of the service, with what a chart of them needs.

export interface Rates extends Readonly<Record<Series, readonly (number | null)[]>> {
  /** Seconds since the epoch, with one value per series: the format of uPlot. A null value interrupts the line. */
  times: readonly number[];
}

export const noRates: Rates = { times: [], messages: [], turns: [], refusals: [] };

export const SAMPLE_INTERVAL_MS = 2_000;
export const WINDOW_S = 300;

/** Adds values per second; `at` is in milliseconds since the epoch. Removes those that are older than the window. */
export const withSample = (rates: Rates, at: number, values: Readonly<Record<Series, number>>): Rates =>
  append(rates, at / 1000, (name) => values[name]);

/** Interrupts the lines: no values are known from the last sample until `at`, in milliseconds since the epoch. */
export function withGap(rates: Rates, at: number): Rates {
  const last = rates.times.length - 1;
  // A gap that continues moves its end, so that its start and its end are its only entries.
  const continues = last >= 1 && rates.messages[last] === null && rates.messages[last - 1] === null;
  return append(continues ? cut(rates, 0, last) : rates, at / 1000, () => null);
}

function append(rates: Rates, time: number, rateOf: (name: Series) => number | null): Rates {
  const oldest = rates.times.findIndex((one) => one > time - WINDOW_S);
  const kept = cut(rates, oldest < 0 ? rates.times.length : oldest, rates.times.length);
  return {
    times: [...kept.times, time],
    ...(Object.fromEntries(names.map((name) => [name, [...kept[name], rateOf(name)]])) as Record<
      Series,
      (number | null)[]
    >),
  };
}

const cut = ({ times, messages, turns, refusals }: Rates, from: number, to: number): Rates => ({
  times: times.slice(from, to),
  messages: messages.slice(from, to),
  turns: turns.slice(from, to),
  refusals: refusals.slice(from, to),
});

/** The shown time, in seconds since the epoch: five minutes up to the newest sample, or up to `now` without one. */
export function windowOf({ times }: Rates, now: number): readonly [from: number, to: number] {
  const to = times.at(-1) ?? now;
  return [to - WINDOW_S, to];
}

/** Width that a label of the time axis needs, with the space around it. */
const LABEL_PX = 56;

/** Whole minutes between two times in seconds, so many that their labels fit into `widthPx`. */
export function minuteTicks(from: number, to: number, widthPx: number): number[] {
  const fitting = Math.max(1, Math.floor(widthPx / LABEL_PX));
  const step = 60 * Math.ceil((to - from) / 60 / fitting);
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, n) => first + n * step);
}

const minuteFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });

/** Hour and minute of a time in seconds, in the reader's time zone and language. */
export const minuteOf = (time: number): string => minuteFormat.format(new Date(time * 1000));

export const rateText = (rate: number): string => (rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString());

/** A series in a sentence, for readers who do not see the chart. */
export function describeRates(rates: Rates, series: Series): string {
  const values = rates[series].filter((value) => value !== null);
  if (values.length === 0) return 'no values yet';
  const last = rates[series].at(-1) ?? null;
  const [from, to] = [rates.times[0] ?? 0, rates.times.at(-1) ?? 0];
  const gapS = Math.round(gapSeconds(rates, series));
  return [
    `from ${minuteOf(from)} to ${minuteOf(to)}`,
    last === null ? 'now unknown' : `now ${rateText(last)}`,
    `lowest ${rateText(Math.min(...values))}`,
    `highest ${rateText(Math.max(...values))}`,
    ...(gapS > 0 ? [`no values for ${gapS} s`] : []),
  ].join('; ');
}

/** Time without values: from the last value before each gap to the first one after it, or to the end. */
function gapSeconds(rates: Rates, series: Series): number {
  const { times } = rates;
  const values = rates[series];
  let [seconds, knownUntil] = [0, times[0] ?? 0];
  for (const [index, time] of times.entries()) {
    const isGap = values[index] === null || values[index - 1] === null;
    if (isGap) seconds += time - knownUntil;
    knownUntil = time;
  }
  return seconds;
}
