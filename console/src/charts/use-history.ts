import { type QueryClient, type UseQueryResult, useQueries, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import { stateValueAt } from '../../../src/domain/history/sample.ts';
import type { JsonObject, Milliseconds } from '../../../src/domain/values.ts';
import type { Problem } from '../api/problem.ts';
import { useStream } from '../live/use-stream.ts';
import { ranges, seriesKey, type TimeWindow } from './chart-window.ts';
import { type HistoryRequest, loadHistory, type ShownTime, windowNow } from './history-request.ts';
import { type SeriesPoints, withLiveValue } from './points.ts';

export interface LoadedHistory {
  /** In the order of the series; undefined while they are loaded. */
  points: readonly (SeriesPoints | undefined)[];
  problems: readonly (Problem | null)[];
  isFetching: boolean;
  reload(): void;
}

/** The first part of the keys of these queries. */
const HISTORY_KEY = 'history of a property';

type HistoryKey = readonly [typeof HISTORY_KEY, string, string, string, boolean];

const keyOf = ({ deviceId, property, time, prefersSamples }: HistoryRequest): HistoryKey => [
  HISTORY_KEY,
  deviceId,
  property,
  'range' in time ? time.range : `${time.window.from}-${time.window.to}`,
  prefersSamples,
];

/**
 * Loads series, one request each. The points of another time are shown until those of the new one are loaded, unless `group`
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

/** After an update, what was added is read once, so that times are exact and reports of the same value are shown. */
const CONFIRM_MS = 800;
const CONFIRM_AGAIN_MS = 5_000;

/**
 * Adds the values of reports to loaded series while they are shown, with one stream of all devices. The stream has the time of
 * the receipt and the whole state, not the reported properties alone, so the added part is read again after a report.
 */
export function useLiveHistory(requests: readonly HistoryRequest[], { enabled }: { enabled: boolean }): void {
  const queries = useQueryClient();
  const [confirmation] = useState(() => new Confirmation(queries));
  useEffect(() => () => confirmation.cancel(), [confirmation]);
  const deviceIds = [...new Set(requests.map(({ deviceId }) => deviceId))].sort();
  useStream({
    path: '/ws/state',
    query: { events: 'state', device_id: deviceIds },
    enabled: enabled && deviceIds.length > 0,
    onMessage(message) {
      const { device_id, state, timestamp } = message as { device_id: string; state: JsonObject; timestamp: number };
      const about = requests.filter(({ deviceId }) => deviceId === device_id);
      for (const request of about) {
        const value = stateValueAt(state, request.property);
        if (value === undefined) continue;
        queries.setQueryData<SeriesPoints>(keyOf(request), (known) => known && withLiveValue(known, timestamp, value));
      }
      confirmation.schedule(about);
    },
    // Reports since the answers, or during an interruption of the stream.
    onOpen: () => confirmation.schedule(requests),
  });
}

/** Reads series again soon after their last change, at most every `CONFIRM_AGAIN_MS`. */
class Confirmation {
  readonly #queries: QueryClient;
  readonly #due = new Map<string, HistoryKey>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor(queries: QueryClient) {
    this.#queries = queries;
  }

  schedule(requests: readonly HistoryRequest[]): void {
    for (const request of requests) {
      const key = keyOf(request);
      this.#due.set(JSON.stringify(key), key);
    }
    const now = performance.now();
    this.#timer ??= setTimeout(() => this.#run(), Math.max(CONFIRM_MS, this.#lastAt + CONFIRM_AGAIN_MS - now));
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#due.clear();
  }

  #run(): void {
    this.#timer = undefined;
    this.#lastAt = performance.now();
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
