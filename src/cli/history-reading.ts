import { forEachLeaf, type SampleValue, untimedReport } from '../domain/history/sample.ts';
import { readStep } from '../domain/history/step-length.ts';
import type { JsonObject } from '../domain/values.ts';
import type { Api } from './api.ts';
import type { ChartValue } from './history-chart.ts';

/** A sample in `GET /devices/{id}/history`. */
export interface HistorySample {
  at: string;
  value: SampleValue;
  received_at: string;
  sequence_number: number;
}

/** An interval there; aggregates that were not requested are null. */
export interface HistoryPoint {
  at: string;
  count: number | null;
  min: number | null;
  max: number | null;
  mean: number | null;
  last: SampleValue | null;
  states: { state: boolean | string | null; ms: number }[] | null;
}

export interface History {
  device_id: string;
  property: string;
  from: string;
  to: string;
  step: string;
  source: string;
  samples: HistorySample[] | null;
  points: HistoryPoint[] | null;
  before: SampleValue | null;
  next_from: string | null;
}

export interface HistoryQuery {
  property: string;
  from?: string | undefined;
  to?: string | undefined;
  step?: string | undefined;
  agg?: string | undefined;
}

/** 1,000,000 samples: all of them are in memory. */
const MAX_PAGES = 100;

/** The whole range as one answer, whose `next_from` is set if there is more than can be held. */
export async function fetchHistory(api: Api, deviceId: string, query: HistoryQuery): Promise<History> {
  const samples: HistorySample[] = [];
  let { from } = query;
  let first: History | null = null;
  for (let pages = 1; ; pages += 1) {
    const { history } = await fetchPage(api, deviceId, { ...query, from });
    first ??= history;
    for (const sample of history.samples ?? []) samples.push(sample);
    if (history.next_from === null || pages >= MAX_PAGES)
      return { ...first, samples: history.samples && samples, next_from: history.next_from };
    from = history.next_from;
  }
}

async function fetchPage(api: Api, deviceId: string, query: HistoryQuery): Promise<{ history: History }> {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const path = `/v1/devices/${encodeURIComponent(deviceId)}/history?${new URLSearchParams(given)}`;
  return (await api.request<{ history: History }>('GET', path, { retryWhenBusy: true, idempotent: true })).body;
}

const nameOf = (state: boolean | string | null): string => (state === null ? '(other)' : String(state));

/**
 * The values of a chart. A text or a boolean lasts until the next sample, and the last one until `until`; numbers do if they
 * are stepped, and then the one before the history is the first.
 */
export function chartValues(history: History, until: number, isStepped = false): ChartValue[] {
  const values = reportedValues(history, until);
  return isStepped ? withSteps(history, values, until) : values;
}

/** With a value for each time between two others, which lasts from the one to the other. */
function withSteps({ from, before, samples, points }: History, values: readonly ChartValue[], until: number) {
  const lasts = samples?.map(({ value }) => value) ?? points?.map(({ last }) => last) ?? [];
  const filled: ChartValue[] = [];
  let [last, end] = [before, Date.parse(from)];
  const fill = (to: number): void => {
    if (typeof last === 'number' && to > end) filled.push({ start: end, end: to, min: last, max: last, states: [] });
  };
  for (const [n, value] of values.entries()) {
    fill(value.start);
    filled.push(value);
    last = lasts[n] ?? last;
    end = Math.min(value.end, until);
  }
  fill(until);
  return filled;
}

function reportedValues({ samples, points, step }: History, until: number): ChartValue[] {
  if (points !== null) {
    const length = readStep(step);
    return points.map(({ at, min, max, states }) => ({
      ...{ start: Date.parse(at), end: Date.parse(at) + length, min, max },
      states: (states ?? []).map(({ state, ms }) => [nameOf(state), ms] as const),
    }));
  }
  return (samples ?? []).map(({ at, value }, n, all) => {
    const start = Date.parse(at);
    if (typeof value === 'number') return { start, end: start, min: value, max: value, states: [] };
    const next = all[n + 1];
    const end = Math.max(start, next === undefined ? until : Date.parse(next.at));
    return { start, end, min: null, max: null, states: [[nameOf(value), end - start] as const] };
  });
}

/** The properties of the current state that leave samples, by path, with their values. */
export async function fetchPropertyValues(api: Api, deviceId: string): Promise<[path: string, value: SampleValue][]> {
  const path = `/v1/devices/${encodeURIComponent(deviceId)}`;
  const { device } = await api.get<{ device: { state: JsonObject } }>(path);
  const found: [string, SampleValue][] = [];
  forEachLeaf(untimedReport(device.state), (property, value) => found.push([property, value]));
  return found.sort(([one], [other]) => (one < other ? -1 : 1));
}
