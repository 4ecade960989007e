import { useQueries } from '@tanstack/react-query';
import type { SampleValue } from '../../../src/domain/history/sample.ts';
import type { EpochMs, Milliseconds } from '../../../src/domain/values.ts';
import { requestJson } from '../api/client.ts';
import { ranges } from './chart-window.ts';

// The last 24 hours of properties, coarsely, for the sparklines of a device.

/** A number, or 1 and 0 for a boolean, at the start of its interval. */
export interface TrendPoint {
  at: number;
  value: number;
}

/** The cost of a GraphQL document allows nine series with two fields (docs/api.md). */
export const SERIES_PER_REQUEST = 8;
/** 96 points, from the roll-ups of completed days. */
const STEP = '15m';
const STALE_MS = 300_000;

interface Trend {
  before: SampleValue | null;
  points: { at: string; last: SampleValue | null }[] | null;
}

interface Answer {
  data?: Record<string, Trend | null> | null;
}

/** The first range of the chart: the values of a new device would be dots at the edge of a day. */
export const chartRange = (points: readonly TrendPoint[] | undefined, now: EpochMs): '1h' | undefined =>
  points?.every(({ at }) => at > now - ranges['1h'].length) ? '1h' : undefined;

/** For the properties `$p0`, `$p1` and so on of the device `$id`. */
export function trendsQuery(count: number): string {
  const names = Array.from({ length: count }, (_, n) => `p${n}`);
  const fields = names.map(
    (name) =>
      `${name}: deviceHistory(id: $id, property: $${name}, step: "${STEP}", agg: "last") { before points { at last } }`,
  );
  return `query ($id: ID!, ${names.map((name) => `$${name}: String!`).join(', ')}) { ${fields.join(' ')} }`;
}

async function requestTrends(id: string, properties: readonly string[]): Promise<ReadonlyMap<string, TrendPoint[]>> {
  const variables = Object.fromEntries([['id', id], ...properties.map((property, n) => [`p${n}`, property])]);
  const body = { query: trendsQuery(properties.length), variables };
  const { data } = await requestJson<Answer>('POST', '/graphql', { body });
  return new Map(
    properties.map((property, n) => [property, trendPoints(data?.[`p${n}`] ?? { before: null, points: null })]),
  );
}

/** The first point is the value before the day, if there is one. */
const trendPoints = ({ before, points }: Trend): TrendPoint[] =>
  [{ at: null, last: before }, ...(points ?? [])].flatMap(({ at, last }) =>
    typeof last === 'number' || typeof last === 'boolean'
      ? [{ at: at === null ? 0 : Date.parse(at), value: Number(last) }]
      : [],
  );

/** The trends of properties of a device, with one request for eight of them; none unless `enabled`. */
export function useTrends(
  id: string,
  properties: readonly string[],
  { enabled }: { enabled: boolean },
): ReadonlyMap<string, TrendPoint[]> {
  const groups = Array.from({ length: Math.ceil(properties.length / SERIES_PER_REQUEST) }, (_, n) =>
    properties.slice(n * SERIES_PER_REQUEST, (n + 1) * SERIES_PER_REQUEST),
  );
  return useQueries({
    queries: groups.map((group) => ({
      queryKey: ['trends', id, ...group],
      queryFn: () => requestTrends(id, group),
      enabled,
      staleTime: STALE_MS,
      refetchOnWindowFocus: false,
    })),
    combine: (results) => new Map(results.flatMap(({ data }) => [...(data ?? [])])),
  });
}

/** Points are joined at least up to this distance, and up to four times the usual one: many properties are reported seldom. */
const JOINED_MS = 60 * 60_000;
const GAP_FACTOR = 4;

/** Distance beyond which two points are not joined. */
function gapOf(points: readonly TrendPoint[]): Milliseconds {
  const distances = points.slice(1).map(({ at }, n) => at - (points[n] as TrendPoint).at);
  const median = distances.sort((one, other) => one - other)[distances.length >> 1] ?? 0;
  return Math.max(JOINED_MS, GAP_FACTOR * median);
}

interface TrendBox {
  from: number;
  to: number;
  width: number;
  height: number;
  /** Whether the lowest value is 0 and the highest one 1. */
  isBoolean: boolean;
  /** Whether a value lasts until the next one. */
  isStepped: boolean;
}

/**
 * The path of a line in a box, in SVG; empty for less than two points. A value that lasts is also that of the time before the
 * next one; a number that does not, and has no other near it, is a dot.
 */
export function trendPath(
  points: readonly TrendPoint[],
  { from, to, width, height, isBoolean, isStepped }: TrendBox,
): string {
  const earlier = isStepped ? points.findLast(({ at }) => at < from) : undefined;
  const within = points.filter(({ at }) => at >= from && at <= to);
  const shown = earlier === undefined ? within : [{ ...earlier, at: from }, ...within];
  if (shown.length < (earlier === undefined ? 2 : 1)) return '';
  const values = shown.map(({ value }) => value);
  const [least, most] = isBoolean ? [0, 1] : [Math.min(...values), Math.max(...values)];
  const x = (at: number): string => (((at - from) / (to - from)) * width).toFixed(1);
  const y = (value: number): string =>
    (most === least ? height / 2 : height - ((value - least) / (most - least)) * height).toFixed(1);
  const gap = gapOf(shown);
  let path = '';
  let before = Number.NEGATIVE_INFINITY;
  for (const { at, value } of shown) {
    if (before === Number.NEGATIVE_INFINITY) path += `M${x(at)} ${y(value)}h0.1`;
    else if (isStepped) path += `H${x(at)}V${y(value)}`;
    else if (at - before > gap) path += `M${x(at)} ${y(value)}h0.1`;
    else path += `L${x(at)} ${y(value)}`;
    before = at;
  }
  return isStepped ? `${path}H${width}` : path;
}
