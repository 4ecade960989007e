import { SERVICE_PATH } from '../base.ts';
import { names, readCounters, type Series } from './counters.ts';

// How fast the service works, of its own metrics. What was seen is kept while the page is open, whatever part of it is looked at.

export interface Rates {
  /** Seconds since the epoch, and for each series its value then: what uPlot takes. */
  times: readonly number[];
  messages: readonly number[];
  turns: readonly number[];
  refusals: readonly number[];
}

const EVERY_MS = 2_000;
/** Five minutes. */
const MAX_SAMPLES = 150;

let rates: Rates = { times: [], messages: [], turns: [], refusals: [] };
let before: { at: number; counted: Record<Series, number> } | null = null;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

export const currentRates = (): Rates => rates;

export function subscribeRates(hear: () => void): () => void {
  listeners.add(hear);
  if (timer === undefined) {
    timer = setInterval(() => void pollMetrics(), EVERY_MS);
    void pollMetrics();
  }
  return () => {
    listeners.delete(hear);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

async function pollMetrics(): Promise<void> {
  if (document.hidden) return;
  try {
    const text = await (await fetch(`${SERVICE_PATH}/metrics`)).text();
    const [at, counted] = [Date.now(), readCounters(text)];
    if (before !== null && at > before.at) add(at, perSecond(before, { at, counted }));
    before = { at, counted };
    for (const listener of listeners) listener();
  } catch {
    // The connection is told elsewhere; a gap in the line says the rest.
  }
}

type Sample = { at: number; counted: Record<Series, number> };

/** A service that was started anew counts from nothing. */
const perSecond = (from: Sample, to: Sample): Record<Series, number> =>
  Object.fromEntries(
    names.map((name) => [name, (Math.max(0, to.counted[name] - from.counted[name]) * 1000) / (to.at - from.at)]),
  ) as Record<Series, number>;

function add(at: number, values: Record<Series, number>): void {
  const kept = <T>(list: readonly T[], value: T): T[] => [...list.slice(1 - MAX_SAMPLES), value];
  rates = {
    times: kept(rates.times, at / 1000),
    ...(Object.fromEntries(names.map((name) => [name, kept(rates[name], values[name])])) as Record<Series, number[]>),
  };
}
