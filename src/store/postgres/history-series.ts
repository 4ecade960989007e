import { DAY_MS } from '../../domain/day.ts';
import type { RollupStep } from '../../domain/history/rollup.ts';
import type { Uuid } from '../../domain/values.ts';
import {
  MAX_DEVICE_SKEW_MS,
  MAX_SERIES_BYTES,
  MAX_TAIL_BYTES,
  type ReportRow,
  type SeriesKey,
  type SeriesRange,
  type SeriesRows,
  type StoredSegment,
} from '../contract/history.ts';
import { binaryArray } from './binary-array.ts';
import type { HistoryDatabase } from './history-partitions.ts';

/** The column of each step in `history_rollups`. */
const rollupColumns: Readonly<Record<RollupStep, string>> = {
  '1m': 'minutes',
  '15m': 'quarters',
  '1h': 'hours',
  '1d': 'days',
};

interface SeriesRow {
  kind: 'day' | 'before' | 'part' | 'tail' | 'more';
  /** Number of the series, or of its device; from 1. */
  n: number;
  day: number | null;
  part: number | null;
  body: Uint8Array | null;
  report: string | null;
}

/**
 * Reports of the days are received until $5, but those from before the registration are imported at any time: also later,
 * for the value before the days.
 */
const receivedBefore = `case when $3::integer::bigint * ${DAY_MS} < (select created_at from devices where id = g.device_id)
      then ${Number.MAX_SAFE_INTEGER} else greatest($5::bigint, p.imported_at + 1) end`;

/**
 * `offset 0` keeps a subquery apart, so that it is executed for each series with an index: joined, PostgreSQL may read whole
 * partitions. A segment of a day that is not merged is of no day before `open_from`. `$6` and `$7`: the first day of parts, and
 * the first time of receipt, that may have samples of the requested days.
 */
const seriesQuery = (step: RollupStep | null): string => `with
  given as materialized (
    select n, device_id, property, dense_rank() over (order by device_id) as device
    from unnest($1::uuid[], $2::text[]) with ordinality as g(device_id, property, n)),
  owners as materialized (
    select g.device, g.device_id, coalesce(p.version, 0) as version, p.open_from, ${receivedBefore} as received_before
    from (select distinct device, device_id from given) as g left join history_positions p on p.device_id = g.device_id),
  tail as materialized (
    select d.device, t.version, t.body, sum(octet_length(t.body)) over () as total from owners d cross join lateral (
      select version, body from samples s where s.device_id = d.device_id and s.version > d.version and s.at < d.received_before and s.at >= $7
      offset 0) as t),
  stored as materialized (
    select 'day' as kind, g.n::integer as n, day, part, body from given g cross join lateral (
      select day, part, ${step === null ? 'body' : rollupColumns[step]} as body
      from ${step === null ? 'history_segments' : 'history_rollups'} s
      where s.device_id = g.device_id and s.property = g.property and s.day between $3 and $4 offset 0) as s
    union all select 'part', g.n::integer, day, part, body
      from given g join owners d on d.device = g.device cross join lateral (
        select day, part, body from history_parts p
        where p.device_id = g.device_id and p.property = g.property and p.day >= d.open_from and p.day between $6 and $4
          and not exists (select from history_rollups r where r.device_id = p.device_id and r.property = p.property
            and r.day = p.day and r.day >= d.open_from and r.day between $6 and $4 and r.part >= p.part) offset 0) as p),
  more as (select exists (select from tail where total > ${MAX_TAIL_BYTES})
    or ((select count(*) from given) > 1
      and (select sum(octet_length(body)) from stored) > ${MAX_SERIES_BYTES}) is true as more)
  select kind, n, day, part, body, null as report from stored where not (select more from more)
  union all select 'before', g.n::integer, day, part, days, null from given g cross join lateral (
    select day, part, days from history_rollups r
    where r.device_id = g.device_id and r.property = g.property and r.day < $3 and $6::integer < $3 order by r.day desc limit 1) as r
  union all select 'tail', device::integer, null, version, null, body from tail where not (select more from more)
  union all select 'more', 0, null, null, null, null from more where more`;

/** See `HistoryStore.series`. */
export async function readStoredSeries(
  database: Pick<HistoryDatabase, 'read'>,
  tenantId: Uuid,
  { keys, range, step }: { keys: readonly SeriesKey[]; range: SeriesRange; step: RollupStep | null },
): Promise<SeriesRows[]> {
  const { from, to, withoutEarlier } = range;
  const firstDay = withoutEarlier ? from : 0;
  const properties = keys.map(({ property }) => property);
  const rows = await database.read<SeriesRow>({
    name: `history_series_${step ?? 'samples'}`,
    scope: { tenantId },
    text: seriesQuery(step),
    values: [
      ...[`{${keys.map(({ deviceId }) => deviceId).join(',')}}`, binaryArray('text', properties)],
      ...[from, to, (to + 1) * DAY_MS + MAX_DEVICE_SKEW_MS],
      ...[firstDay, firstDay * DAY_MS - MAX_DEVICE_SKEW_MS],
    ],
  });
  return seriesOf(rows, keys);
}

/** Rows of a statement as the series of `keys`. */
function seriesOf(rows: readonly SeriesRow[], keys: readonly SeriesKey[]): SeriesRows[] {
  const tails = new Map<number, ReportRow[]>();
  const complete = !rows.some(({ kind }) => kind === 'more');
  const series = keys.map((): SeriesRows => ({ days: [], before: null, parts: [], tail: [], complete }));
  for (const { kind, n, day, part, body, report } of rows) {
    if (kind === 'tail') {
      const tail = tails.get(n) ?? [];
      tails.set(n, tail);
      if (report !== null && part !== null) tail.push({ version: part, text: report });
      continue;
    }
    const own = series[n - 1];
    if (own === undefined || day === null || part === null || body === null) continue;
    const segment: StoredSegment = { day, part, body };
    if (kind === 'day') own.days.push(segment);
    else if (kind === 'part') own.parts.push(segment);
    else own.before = segment;
  }
  for (const tail of tails.values()) tail.sort((one, other) => one.version - other.version);
  for (const { days } of series) days.sort((one, other) => one.day - other.day);
  const ids = [...new Set(keys.map(({ deviceId }) => deviceId))].sort();
  return series.map((one, n) => ({ ...one, tail: tails.get(1 + ids.indexOf(keys[n]?.deviceId ?? '')) ?? [] }));
}
