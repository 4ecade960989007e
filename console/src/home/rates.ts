import { SERVICE_PATH } from '../base.ts';
import { names, readCounters, type Series } from './counters.ts';

// Rates of the service, computed from its metrics. The samples are kept across page changes while the console is open.

export interface Rates {
  /** Seconds since the epoch, with one value per series: the format of uPlot. */
  times: readonly number[];
  messages: readonly number[];
  turns: readonly number[];
  refusals: readonly number[];
}

const SAMPLE_INTERVAL_MS = 2_000;
/** Five minutes. */
const MAX_SAMPLES = 150;

let rates: Rates = { times: [], messages: [], turns: [], refusals: [] };
let previous: Sample | null = null;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

export const currentRates = (): Rates => rates;

export function subscribeRates(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) {
    timer = setInterval(() => void pollMetrics(), SAMPLE_INTERVAL_MS);
    void pollMetrics();
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

async function pollMetrics(): Promise<void> {
  if (document.hidden) return;
  try {
    const text = await (await fetch(`${SERVICE_PATH}/metrics`)).text();
    const sample: Sample = { at: Date.now(), counts: readCounters(text) };
    if (previous !== null && sample.at > previous.at) add(sample.at, perSecond(previous, sample));
    previous = sample;
    for (const listener of listeners) listener();
  } catch {
    // Connection problems are shown by the connection status; the chart has a gap.
  }
}

interface Sample {
  at: number;
  counts: Record<Series, number>;
}

/** Counters restart at 0 with the service, so negative differences count as 0. */
const perSecond = (from: Sample, to: Sample): Record<Series, number> =>
  Object.fromEntries(
    names.map((name) => [name, (Math.max(0, to.counts[name] - from.counts[name]) * 1000) / (to.at - from.at)]),
  ) as Record<Series, number>;

function add(at: number, values: Record<Series, number>): void {
  const append = <T>(list: readonly T[], value: T): T[] => [...list.slice(1 - MAX_SAMPLES), value];
  rates = {
    times: append(rates.times, at / 1000),
    ...(Object.fromEntries(names.map((name) => [name, append(rates[name], values[name])])) as Record<Series, number[]>),
  };
}
