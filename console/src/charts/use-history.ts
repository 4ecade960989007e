import { type QueryClient, type UseQueryResult, useQueries, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import type { Milliseconds } from '../../../src/domain/values.ts';
import type { Problem } from '../api/problem.ts';
import { useStream } from '../live/use-stream.ts';
import { ranges, seriesKey, type TimeWindow } from './chart-window.ts';
import { type HistoryRequest, loadHistory, type ShownTime, windowNow } from './history-request.ts';
import { kindsOf, liveSampleOf, type SampleUpdate } from './live-samples.ts';
import { type SeriesPoints, withLiveSample } from './points.ts';

export interface LoadedHistory {
  /** In the order of the series; undefined while they are loaded. */
  points: readonly (SeriesPoints | undefined)[];
  problems: readonly (Problem | null)[];
  isFetching: boolean;
  reload(): void;
}

/** The first part of the keys of these queries. */
const HISTORY_KEY = 'history of a property';

type HistoryKey = readonly [typeof HISTORY_KEY, string, string, string, boolean, string | undefined];

const keyOf = ({ deviceId, property, time, prefersSamples, step }: HistoryRequest): HistoryKey => [
  HISTORY_KEY,
  deviceId,
  property,
  'range' in time ? time.range : `${time.window.from}-${time.window.to}`,
  prefersSamples,
  step,
];

/**
 * Loads series, those of the same time with one request. The points of another time are shown until those of the new one are loaded, unless `group`
 * is another one.
 */
export function useHistory(
  requests: readonly HistoryRequest[],
  { enabled, group }: { enabled: boolean; group: string },
): LoadedHistory {
  const queries = useQueryClient();
  const results = useQueries({
    queries: requests.map((request) => {
      const queryKey = keyOf(request);
      return {
        queryKey,
        queryFn: () => loadHistory(request, queries.getQueryData<SeriesPoints>(queryKey)),
        enabled,
        staleTime: 60_000,
      };
    }),
  }) as UseQueryResult<SeriesPoints, Problem>[];
  const shown = useRef({ group, points: new Map<string, SeriesPoints>() });
  if (shown.current.group !== group) shown.current = { group, points: new Map() };
  const points = requests.map((request, index) => {
    const key = seriesKey(request);
    const { data, error } = results[index] as UseQueryResult<SeriesPoints, Problem>;
    if (data !== undefined) shown.current.points.set(key, data);
    return data ?? (error === null ? shown.current.points.get(key) : undefined);
  });
  return {
    points,
    problems: results.map(({ error }) => error),
    isFetching: results.some(({ isFetching }) => isFetching),
    reload: () => void Promise.all(results.map(({ refetch }) => refetch())),
  };
}

/** After the stream was opened, what it did not have is read soon. */
const CONFIRM_MS = 800;
/** Intervals that samples were added to, and states that came late, are read again so often, all those of a page at once. */
const CONFIRM_AGAIN_MS = 30_000;
const untilNextRound = (): Milliseconds => CONFIRM_AGAIN_MS - (performance.now() % CONFIRM_AGAIN_MS);

/**
 * Adds the samples of reports and of telemetry to loaded series while they are shown. An answer may have a sample that the stream brings too, which
 * an interval counts twice until it is read again.
 */
export function useLiveHistory(requests: readonly HistoryRequest[], { enabled }: { enabled: boolean }): void {
  const queries = useQueryClient();
  const [confirmation] = useState(() => new Confirmation(queries));
  useEffect(() => () => confirmation.cancel(), [confirmation]);
  const deviceIds = [...new Set(requests.map(({ deviceId }) => deviceId))].sort();
  useStream({
    path: '/ws/state',
    query: { events: kindsOf(requests), device_id: deviceIds },
    enabled: enabled && deviceIds.length > 0,
    onMessage(message) {
      const reported = requests.filter((request) => {
        const sample = liveSampleOf(message as SampleUpdate, request);
        if (sample === undefined) return false;
        const { at, value } = sample;
        queries.setQueryData<SeriesPoints>(keyOf(request), (known) => known && withLiveSample(known, at, value));
        return true;
      });
      confirmation.schedule(reported, untilNextRound());
    },
    // Reports since the answers, or during an interruption of the stream.
    onOpen: () => confirmation.schedule(requests, CONFIRM_MS),
  });
}

/** Reads series again some time after their last change, all that are due at once. */
class Confirmation {
  readonly #queries: QueryClient;
  readonly #due = new Map<string, HistoryKey>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #runsAt = Number.POSITIVE_INFINITY;

  constructor(queries: QueryClient) {
    this.#queries = queries;
  }

  schedule(requests: readonly HistoryRequest[], inMs: Milliseconds): void {
    if (requests.length === 0) return;
    for (const request of requests) {
      const key = keyOf(request);
      this.#due.set(JSON.stringify(key), key);
    }
    const at = performance.now() + inMs;
    if (at >= this.#runsAt) return;
    clearTimeout(this.#timer);
    this.#runsAt = at;
    this.#timer = setTimeout(() => this.#run(), inMs);
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#runsAt = Number.POSITIVE_INFINITY;
    this.#due.clear();
  }

  #run(): void {
    this.#runsAt = Number.POSITIVE_INFINITY;
    const keys = [...this.#due.values()];
    this.#due.clear();
    for (const queryKey of keys) void this.#queries.invalidateQueries({ queryKey, exact: true });
  }
}

/** The window of the time at `now`; that of a range moves with it. */
export function useShownWindow(time: ShownTime, now: number): TimeWindow {
  const length = 'range' in time ? ranges[time.range].length : 0;
  // So many steps are as smooth as the pixels of a screen; with less motion fewer.
  const steps = matchMedia('(prefers-reduced-motion: reduce)').matches ? 60 : 600;
  const step = Math.max(1_000, length / steps);
  const end = Math.ceil(now / step) * step;
  const [from, to] = 'range' in time ? [end - length, end] : [time.window.from, time.window.to];
  return useMemo(() => ({ from, to }), [from, to]);
}

/**
 * The requests for the same time earlier by `shift`. A range that ends now is requested with half of its length more, and
 * again when it has moved over that.
 */
export function earlierRequests(
  requests: readonly HistoryRequest[],
  { time, shift }: { time: ShownTime; shift: Milliseconds },
): HistoryRequest[] {
  const { from, to } = windowNow(time);
  const ahead = 'range' in time ? (to - from) / 2 : 0;
  const start = ahead === 0 ? from : Math.floor(to / ahead) * ahead - (to - from);
  const window = { from: start - shift, to: start + (to - from) + 1.25 * ahead - shift };
  // Intervals, because samples of last week may have expired.
  return requests.map((request) => ({ ...request, time: { window }, prefersSamples: false }));
}
