import { SERVICE_PATH } from '../base.ts';
import { names, readCounters, type Series } from './counters.ts';
import { noRates, type Rates, SAMPLE_INTERVAL_MS, withGap, withSample } from './rate-window.ts';

// Rates of the service, computed from its metrics. The samples are kept across page changes while the console is open.

let rates: Rates = noRates;
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
    const answer = await fetch(`${SERVICE_PATH}/metrics`);
    if (!answer.ok) throw new Error(`the metrics were answered with ${answer.status}`);
    const sample: Sample = { at: Date.now(), counts: readCounters(await answer.text()) };
    // The first sample after a pause would be the mean of the pause, so it only starts the next interval.
    if (previous !== null && sample.at - previous.at > 3 * SAMPLE_INTERVAL_MS) rates = withGap(rates, sample.at);
    else if (previous !== null && sample.at > previous.at)
      rates = withSample(rates, sample.at, perSecond(previous, sample));
    previous = sample;
  } catch {
    // Connection problems are shown by the connection status.
    rates = withGap(rates, Date.now());
    previous = null;
  }
  for (const listener of listeners) listener();
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
