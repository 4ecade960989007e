import type { EpochMs, Milliseconds } from '../../../src/domain/values.ts';

// The shown time of a chart, and the series in the address of its page.

/** In milliseconds since the epoch. */
export interface TimeWindow {
  from: EpochMs;
  to: EpochMs;
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Ranges that end now. */
export const ranges = {
  '1h': { label: '1 h', length: HOUR },
  '6h': { label: '6 h', length: 6 * HOUR },
  '24h': { label: '24 h', length: DAY },
  '7d': { label: '7 d', length: 7 * DAY },
  '30d': { label: '30 d', length: 30 * DAY },
  '1y': { label: '1 y', length: 365 * DAY },
} as const satisfies Record<string, { label: string; length: Milliseconds }>;
export type RangeName = keyof typeof ranges;
export const rangeNames = Object.keys(ranges) as RangeName[];
const DEFAULT_RANGE: RangeName = '24h';

/** Distances of compared times. */
export const comparisons = {
  day: { label: 'Yesterday', shift: DAY },
  week: { label: 'Last week', shift: 7 * DAY },
} as const satisfies Record<string, { label: string; shift: Milliseconds }>;
export type ComparisonName = keyof typeof comparisons;

/** A property of a device. */
export interface SeriesId {
  deviceId: string;
  property: string;
}

export const seriesKey = ({ deviceId, property }: SeriesId): string => `${deviceId}:${property}`;

/** Colours of a chart. */
export const MAX_CHARTED_SERIES = 8;

/** The parameters in the address of a chart page. */
export interface ChartQuery {
  series: readonly SeriesId[];
  /** Null for a fixed window. */
  range: RangeName | null;
  /** Null for a range that ends now. */
  fixed: TimeWindow | null;
  comparison: ComparisonName | null;
  showsEvents: boolean;
  showsTable: boolean;
}

/** The view in the address of the page of a device. */
export function viewFrom(deviceId: string, query: URLSearchParams): ChartQuery {
  const own = query.getAll('property').map((property) => ({ deviceId, property }));
  const others = query.getAll('series').flatMap((text) => {
    const [, id = '', property = ''] = /^([0-9a-f-]{36}):(.+)$/s.exec(text) ?? [];
    return id === '' ? [] : [{ deviceId: id, property }];
  });
  const series = [...new Map([...own, ...others].map((one) => [seriesKey(one), one])).values()];
  const fixed = windowIn(query);
  return {
    series: series.slice(0, MAX_CHARTED_SERIES),
    fixed,
    range: fixed === null ? (rangeNames.find((name) => name === query.get('range')) ?? DEFAULT_RANGE) : null,
    comparison: (Object.keys(comparisons) as ComparisonName[]).find((name) => name === query.get('compare')) ?? null,
    showsEvents: query.get('events') !== 'no',
    showsTable: query.get('view') === 'table',
  };
}

function windowIn(query: URLSearchParams): TimeWindow | null {
  const [from, to] = [Date.parse(query.get('from') ?? ''), Date.parse(query.get('to') ?? '')];
  return from >= 0 && to > from ? { from, to } : null;
}

/** The address of the chart page of a device; without a range it shows the last 24 hours. */
export function chartHref(deviceId: string, properties: readonly string[], range?: RangeName): string {
  const query = new URLSearchParams(properties.map((property) => ['property', property]));
  if (range !== undefined) query.set('range', range);
  return `/devices/${deviceId}/history?${query}`;
}

/** The query with these series. */
export function withSeries(query: URLSearchParams, deviceId: string, series: readonly SeriesId[]): URLSearchParams {
  const after = new URLSearchParams(query);
  after.delete('property');
  after.delete('series');
  for (const one of series) {
    if (one.deviceId === deviceId) after.append('property', one.property);
    else after.append('series', seriesKey(one));
  }
  return after;
}

const SHORTEST: Milliseconds = 10_000;
const LONGEST: Milliseconds = 2 * 365 * DAY;

/** Zooms by `factor` (2 shows twice the time) and keeps `around` where it is. */
export function zoomed({ from, to }: TimeWindow, factor: number, around = (from + to) / 2): TimeWindow {
  const length = Math.min(LONGEST, Math.max(SHORTEST, (to - from) * factor));
  const share = (around - from) / (to - from);
  return wholeWindow(around - share * length, length);
}

/** Moves by a part of the length, later if it is positive. */
export const panned = ({ from, to }: TimeWindow, share: number): TimeWindow =>
  wholeWindow(from + share * (to - from), to - from);

/** A window that begins before `now`, so that a quarter of it at least may have values. */
export function untilNow(window: TimeWindow, now: EpochMs): TimeWindow {
  const length = window.to - window.from;
  return window.from <= now - length / 4 ? window : wholeWindow(now - length / 4, length);
}

/** The window between two times, with the shortest length at least. */
export const windowBetween = (one: EpochMs, other: EpochMs): TimeWindow =>
  wholeWindow(Math.min(one, other), Math.max(SHORTEST, Math.abs(other - one)));

function wholeWindow(from: EpochMs, length: Milliseconds): TimeWindow {
  const start = Math.max(0, Math.round(from));
  return { from: start, to: start + Math.round(length) };
}
