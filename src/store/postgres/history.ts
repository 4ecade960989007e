import { DAY_MS } from '../../domain/day.ts';
import { shardInSql, shardOf } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import type {
  DayNumber,
  HistoryBacklog,
  HistoryStore,
  OpenSeries,
  PropertySegment,
  ReportRow,
  ReportTail,
  SampleCount,
} from '../contract/history.ts';
import { DataRefused, StoreUnavailable } from '../contract.ts';
import { binaryArray } from './binary-array.ts';
import type { SqlValue } from './database.ts';
import { FENCED, type Fence, fenceExpression } from './fence.ts';
import { dropPartitions, type HistoryDatabase, makePartitions } from './history-partitions.ts';
import { readStoredSeries } from './history-series.ts';
import { inShards, shardArray } from './shard-condition.ts';

const MOVED = 'the history position of the device has moved';

const positionOf = '(select version from history_positions where device_id = $1)';

const openFromOf = '(select open_from from history_positions where device_id = $1)';

/**
 * A segment of a day that is not merged, or whose samples came later. None is of a day before `open_from`, so that older
 * partitions are not read.
 */
const unmergedParts = `from history_parts p where p.device_id = $1 and p.day >= ${openFromOf} and not exists (
  select from history_rollups r where r.device_id = p.device_id and r.property = p.property and r.day = p.day
    and r.day >= ${openFromOf} and r.part >= p.part)`;

/** Rows of a device by table, with the rest of their keys. */
const deviceTables = [
  ['samples', 'version, at'],
  ['history_parts', 'property, day, part'],
  ['history_segments', 'property, day'],
  ['history_rollups', 'property, day'],
  ['history_positions', 'device_id'],
] as const;

const textArray = (texts: readonly string[]): SqlValue => (texts.length === 0 ? '{}' : binaryArray('text', texts));
const bytesArray = (bodies: readonly Uint8Array[]): SqlValue =>
  bodies.length === 0 ? '{}' : binaryArray('bytea', bodies);

/** An array for each column of integers. */
const integerColumns = <Column extends string>(
  rows: readonly Record<Column, number>[],
  ...columns: Column[]
): string[] => columns.map((column) => `{${rows.map((row) => row[column]).join(',')}}`);

export const historyStore = (database: HistoryDatabase, fence: Fence | null): HistoryStore => {
  const checks = new FencedWrites(database, fence);
  return {
    async backlogs(after, limit, maxRows, shards) {
      const owned = inShards(shards, shardInSql('d.tenant_id'), 4);
      const rows = await database.read<HistoryBacklog & { known: boolean }>({
        name: `history_backlogs${owned.suffix}`,
        text: `select d.id as "deviceId", d.tenant_id as "tenantId", d.deleted, p.device_id is not null as known,
            p.open_from as "openFrom", t.rows::integer, t.oldest, case when p.open_from::bigint * ${DAY_MS} < d.created_at
              then greatest(p.open_from, p.imported_at / ${DAY_MS})::integer else p.open_from end as "expiresWith"
          from (select id, tenant_id, deleted, created_at from devices d where id > $1${owned.condition} order by id limit $2) as d
          left join history_positions p on p.device_id = d.id
          cross join lateral (select count(*) as rows, min(at) as oldest from (
            select at from samples s where s.device_id = d.id and s.version > coalesce(p.version, 0)
            order by s.version limit $3) as first) as t
          order by d.id`,
        values: [after, limit, maxRows, ...owned.values],
      });
      const backlogs = rows
        .filter(({ rows: waiting, openFrom, deleted, known }) => waiting > 0 || openFrom !== null || (deleted && known))
        .map(({ known: _, ...backlog }) => backlog);
      return { backlogs, next: rows.length < limit ? null : (rows.at(-1)?.deviceId ?? null) };
    },

    async tail(deviceId, maxRows, maxBytes) {
      const [position] = await database.read<Pick<ReportTail, 'version'>>({
        name: 'history_position',
        text: `select coalesce(${positionOf}, 0) as version`,
        values: [deviceId],
      });
      const version = position?.version ?? 0;
      const rows = await database.read<ReportRow>({
        name: 'history_tail',
        text: `select version, body as text from (
            select version, body, sum(octet_length(body)) over (order by version) - octet_length(body) as before from (
              select version, body from samples where device_id = $1 and version > $2 order by version limit $3) as first) as sized
          where before < $4 order by version`,
        values: [deviceId, version, maxRows, maxBytes],
      });
      return { version, rows };
    },

    sampleCounts: (deviceId, days) =>
      database.read<SampleCount>({
        name: 'history_sample_counts',
        text: `select property, day, sum(samples)::integer as samples from (
            select property, day, samples from history_segments where device_id = $1 and day = any($2::integer[])
            union all select property, day, samples ${unmergedParts} and p.day = any($2::integer[])
            union all select property, day, 0 from history_rollups where device_id = $1 and day = any($2::integer[])) as s
          group by property, day`,
        values: [deviceId, `{${days.join(',')}}`],
      }),

    compact: ({ deviceId, tenantId, from, to, segments }) =>
      checks.write('history_compact', tenantId, {
        text: `given as (select * from unnest($4::text[], $5::integer[], $6::integer[], $7::bytea[])
            as g(property, day, samples, body)),
          moved as (
            insert into history_positions as p (device_id, tenant_id, version, open_from)
            select $1, $2, $3, (select min(day) from given) where $8::bigint = 0 or ${positionOf} is not null
            on conflict (device_id) do update
              set version = excluded.version, open_from = least(p.open_from, excluded.open_from)
            where p.version = $8 returning device_id),
          stored as (
            insert into history_parts (device_id, property, day, part, tenant_id, samples, body)
            select $1, property, day, $3, $2, samples, body from given)
          select case when not exists (select from moved) then refuse('${MOVED}') end as moved`,
        values: [
          ...[deviceId, tenantId, to],
          textArray(segments.map(({ property }) => property)),
          ...integerColumns(segments, 'day', 'samples'),
          bytesArray(segments.map(({ body }) => body)),
          from,
        ],
      }),

    async openSeries(deviceId, before) {
      const rows = await database.read<{ version: number } & { [K in keyof OpenSeries]: OpenSeries[K] | null }>({
        name: 'history_open_series',
        text: `select coalesce(${positionOf}, 0) as version, open.* from (select) as device left join (
            select p.property, p.day, max(p.part) as part, sum(octet_length(p.body))::integer + coalesce((
                select octet_length(s.body) from history_segments s
                where s.device_id = $1 and s.property = p.property and s.day = p.day), 0) as bytes,
              sum(p.samples)::integer + coalesce((
                select s.samples from history_segments s
                where s.device_id = $1 and s.property = p.property and s.day = p.day), 0) as samples, (
                select r.part from history_rollups r
                where r.device_id = $1 and r.property = p.property and r.day = p.day) as "mergedPart"
              ${unmergedParts} and p.day < $2 group by p.property, p.day) as open on true
          order by open.day, open.property`,
        values: [deviceId, before],
      });
      const series = rows.flatMap(({ property, day, part, bytes, samples, mergedPart }) =>
        property !== null && day !== null && part !== null
          ? [{ property, day, part, bytes: bytes ?? 0, samples: samples ?? 0, mergedPart }]
          : [],
      );
      return { version: rows[0]?.version ?? 0, series };
    },

    segments: (tenantId, deviceId, day, properties) =>
      database.read<PropertySegment>({
        name: 'history_segments_of',
        scope: { tenantId },
        text: `select property, day, part, body from history_segments
            where device_id = $1 and day = $2 and property = any($3::text[])
          union all select property, day, part, body ${unmergedParts} and p.day = $2 and p.property = any($3::text[])`,
        values: [deviceId, day, textArray(properties)],
      }),

    merge: (deviceId, tenantId, merged) =>
      checks.write('history_merge', tenantId, {
        text: `given as (select * from unnest($3::text[], $4::integer[], $5::bigint[], $6::integer[],
              $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[])
            as g(property, day, part, samples, body, days, hours, quarters, minutes)),
          kept as (
            insert into history_segments as s (device_id, property, day, part, tenant_id, samples, body)
            select $1, property, day, part, $2, samples, body from given
            on conflict (device_id, property, day) do update
              set part = excluded.part, samples = excluded.samples, body = excluded.body where s.part < excluded.part),
          rolled as (
            insert into history_rollups as r (device_id, property, day, part, tenant_id, days, hours, quarters, minutes)
            select $1, property, day, part, $2, days, hours, quarters, minutes from given
            on conflict (device_id, property, day) do update
              set part = excluded.part, days = excluded.days, hours = excluded.hours, quarters = excluded.quarters,
                minutes = excluded.minutes where r.part < excluded.part)
          select null as merged`,
        values: [
          ...[deviceId, tenantId],
          textArray(merged.map(({ property }) => property)),
          ...integerColumns(merged, 'day', 'part', 'samples'),
          bytesArray(merged.map(({ body }) => body)),
          ...(['1d', '1h', '15m', '1m'] as const).map((step) => bytesArray(merged.map(({ rollups }) => rollups[step]))),
        ],
      }),

    async discardLate({ deviceId, tenantId, property, day, part, mergedPart }) {
      const discarded = await checks.row<{ day: DayNumber | null }>('history_discard_late', tenantId, {
        text: `discarded as (
            update history_rollups set part = $5 where device_id = $1 and property = $2 and day = $3 and part = $4 and $5 > $4
              and not exists (select from history_segments where device_id = $1 and property = $2 and day = $3)
            returning day)
          select (select day from discarded) as day`,
        values: [deviceId, property, day, mergedPart, part],
      });
      return (discarded?.day ?? null) !== null;
    },

    async closeDays(deviceId, tenantId, version, before) {
      await checks.write('history_close_days', tenantId, {
        text: `closed as (
            update history_positions set open_from = (
              select min(day) from history_parts where device_id = $1 and day >= $3)
            where device_id = $1 and version = $2)
          select null as closed`,
        values: [deviceId, version, before],
      });
    },

    async deleteDevice(deviceId, tenantId, batch, isStopped) {
      // The position is the last one: a device that has one is continued by the next sweep.
      for (const [table, key] of deviceTables) {
        for (let deleted = batch; deleted >= batch; ) {
          if (isStopped()) return;
          const row = await checks.row<{ deleted: number }>(`history_delete_${table}`, tenantId, {
            text: `gone as (delete from ${table} where device_id = $1 and (${key}) <= (select ${key} from (
                select ${key} from ${table} where device_id = $1 order by ${key} limit $2) as first
                order by ${key.replaceAll(',', ' desc,')} desc limit 1) returning device_id)
              select (select count(*) from gone) as deleted`,
            values: [deviceId, batch],
          });
          if (row === null) return;
          deleted = row.deleted;
        }
      }
    },

    async samplesOf(tenantId, deviceId, properties, { from, to }) {
      const [row] = await database.read<{ samples: number }>({
        name: 'history_samples_of',
        scope: { tenantId },
        text: `select coalesce(sum(samples), 0)::float8 as samples from (
            select samples from history_segments where device_id = $1 and property = any($2::text[]) and day between $3 and $4
            union all select samples ${unmergedParts} and p.property = any($2::text[]) and p.day between $3 and $4) as s`,
        values: [deviceId, binaryArray('text', properties), from, to],
      });
      return row?.samples ?? 0;
    },

    series: (tenantId, keys, range, step) => readStoredSeries(database, tenantId, { keys, range, step }),

    makePartitions: (today) => makePartitions(database, today),
    dropPartitions: (days, compactedBefore) => dropPartitions(database, days, compactedBefore),
  };
};

/** Statements that change nothing unless this process still owns the shard of the tenant. */
class FencedWrites {
  readonly #database: Pick<HistoryDatabase, 'write'>;
  readonly #fence: Fence | null;

  constructor(database: Pick<HistoryDatabase, 'write'>, fence: Fence | null) {
    this.#database = database;
    this.#fence = fence;
  }

  /**
   * `text`: common table expressions and a query of one column. False if the position of the device or its shard has
   * moved.
   */
  async write(
    name: string,
    tenantId: Uuid,
    statement: { text: string; values: readonly SqlValue[] },
  ): Promise<boolean> {
    return (await this.row(name, tenantId, statement)) !== null;
  }

  /** The row of the query; null if it refused. */
  async row<Row extends object>(
    name: string,
    tenantId: Uuid,
    { text, values }: { text: string; values: readonly SqlValue[] },
  ): Promise<Row | null> {
    const fence = this.#fence;
    const fenced = fence === null ? '' : `, ${fenceExpression(fence, values.length + 1)}`;
    const shards = fence?.allShardsEpoch === null ? [shardArray([shardOf(tenantId)])] : [];
    try {
      const statement = { name, text: `with ${text}${fenced}`, values: [...values, ...shards] };
      const [row] = await this.#database.write<Row>(statement);
      return row ?? null;
    } catch (error) {
      if (!(error instanceof DataRefused)) throw error;
      if (error.message === MOVED) return null;
      if (error.message !== FENCED) throw error;
      // Shards move between nodes: compaction may read a device just before, and the new owner compacts it.
      if (fence?.allShardsEpoch === null) return null;
      fence?.refused(FENCED);
      throw new StoreUnavailable(FENCED);
    }
  }
}
