import { DAY_MS } from '../../domain/day.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { DayNumber, HistoryDays } from '../contract/history.ts';
import type { Database, Query } from './database.ts';
import { SCHEMA_LOCK_TIMEOUT_MS } from './lock-retry.ts';

/** Key of an advisory lock; it must differ from that of the migrations and of the active lock. */
const PARTITION_LOCK = 7_421_002;
/** Partitions exist for so many days ahead, in case none can be made for some time. */
const DAYS_AHEAD = 4;
/** Rows that one statement deletes from a default partition. */
const DELETE_BATCH = 2_000;
/** Reports that could not be compacted, and segments that could not be merged, are kept so many days longer than samples. */
export const UNCOMPACTED_DAYS = 2;

/** A table with a partition for each `days` days. `unit`: of its bounds. */
interface PartitionedTable {
  name: string;
  days: number;
  unit: number;
  /** Condition on the rows of its default partition that end before the day `$1`. */
  expired: string;
  /** What a table needs whose rows are dropped as soon as they are compacted or merged. */
  pending?: {
    /** Query whether a partition with the days up to `last` has rows that are not. */
    existsIn(partition: string, last: DayNumber): string;
    /** Condition on the rows `t` of the default partition that are not. */
    rows: string;
  };
  /**
   * The same for rows of a day that has expired, which are needed if they were imported at `since` or later. They are of
   * days before the registration of their device, so that those of later days are not kept too.
   */
  imported?: {
    existsIn(first: DayNumber, last: DayNumber, since: EpochMs): string;
    /** `since`: an expression. */
    rows(since: string): string;
  };
}

/** The rows of a table that end before `end`; those before `expired` also if they are pending. */
interface DropRange {
  end: DayNumber;
  expired: DayNumber;
}

const samples: PartitionedTable = {
  ...{ name: 'samples', days: 1, unit: DAY_MS, expired: `at < $1::bigint * ${DAY_MS}` },
  pending: {
    // One index lookup for each device: a partition has all reports of a day.
    existsIn: (partition) => `select exists (select from devices d
      left join history_positions p on p.device_id = d.id
      cross join lateral (select from ${partition} s where s.device_id = d.id and s.version > coalesce(p.version, 0)
        limit 1) as t
      where not d.deleted) as pending`,
    rows: 't.version > coalesce((select p.version from history_positions p where p.device_id = t.device_id), 0)',
  },
};
const parts: PartitionedTable = {
  ...{ name: 'history_parts', days: 1, unit: 1, expired: 'day < $1::integer' },
  pending: {
    // A statement that inserts parts also sets `open_from`.
    existsIn: (_, last) => `select exists (select from history_positions where open_from <= ${last}) as pending`,
    rows: 'exists (select from history_positions p where p.device_id = t.device_id and p.open_from <= t.day)',
  },
  // The roll-ups of a day that expired before it was imported are made from its parts.
  imported: {
    existsIn: (
      first,
      last,
      since,
    ) => `select exists (select from history_positions p join devices d on d.id = p.device_id
      where p.open_from <= ${last} and p.imported_at >= ${since} and d.created_at > ${first}::bigint * ${DAY_MS}) as pending`,
    rows: (since) => `exists (select from history_positions p join devices d on d.id = p.device_id
      where p.device_id = t.device_id and p.open_from <= t.day and p.imported_at >= ${since}
        and d.created_at > t.day::bigint * ${DAY_MS})`,
  },
};
const segments: PartitionedTable = { name: 'history_segments', days: 1, unit: 1, expired: 'day < $1::integer' };
/** A partition has a few megabytes for a thousand properties: one for each day would be hundreds of small tables. */
const rollups: PartitionedTable = { name: 'history_rollups', days: 30, unit: 1, expired: 'day < $1::integer' };

/** The part of the database that the history uses. */
export type HistoryDatabase = Pick<Database, 'read' | 'write' | 'transaction'>;

const tables = [samples, parts, segments, rollups];

const partitionName = ({ name }: PartitionedTable, first: DayNumber): string => `${name}_d${first}`;

/** Makes the missing partitions up to `DAYS_AHEAD`; returns how many. */
export async function makePartitions(database: HistoryDatabase, today: DayNumber): Promise<number> {
  let made = 0;
  for (const table of tables) {
    const existing = new Set(await partitionsOf(database, table));
    for (let day = Math.floor(today / table.days) * table.days; day <= today + DAYS_AHEAD; day += table.days)
      if (!existing.has(day) && (await makePartition(database, table, day))) made += 1;
  }
  return made;
}

/** Drops the partitions whose rows have expired or are compacted; returns how many. */
export async function dropPartitions(
  database: HistoryDatabase,
  { today, samplesFrom, rollupsFrom }: HistoryDays,
  compactedBefore: EpochMs,
): Promise<number> {
  const [open] = await database.read<{ day: DayNumber | null }>({
    text: 'select min(open_from) as day from history_positions where open_from is not null',
  });
  const expired = samplesFrom - UNCOMPACTED_DAYS;
  const compacted = Math.floor(compactedBefore / DAY_MS);
  // Samples of yesterday may still arrive.
  const merged = Math.min(open?.day ?? today, today - 1);
  const ranges: [PartitionedTable, DropRange][] = [
    [samples, { end: Math.min(Math.max(compacted, expired), today), expired }],
    [parts, { end: Math.max(merged, expired), expired }],
    [segments, { end: samplesFrom, expired: samplesFrom }],
    [rollups, { end: rollupsFrom, expired: rollupsFrom }],
  ];
  let dropped = 0;
  for (const [table, range] of ranges) dropped += await dropBefore(database, table, range);
  return dropped;
}

/** The first days of its partitions. */
async function partitionsOf(database: HistoryDatabase, { name }: PartitionedTable): Promise<DayNumber[]> {
  const rows = await database.read<{ day: DayNumber }>({
    text: `select substring(c.relname from '_d(\\d+)$')::integer as day from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = $1::regclass and c.relname ~ '_d\\d+$'`,
    values: [name],
  });
  return rows.map(({ day }) => day);
}

/** Statements that wait for the lock of a table wait for a short time, because all others wait behind them. */
const briefly = <T>(database: HistoryDatabase, run: (query: Query) => Promise<T>): Promise<T> =>
  database.transaction(async (query) => {
    await query(`set local lock_timeout = ${SCHEMA_LOCK_TIMEOUT_MS}`);
    return run(query);
  });

/**
 * Attached after it was created, which needs no lock that reports wait for. False if the default partition has rows of these
 * days: they stay there until they expire.
 */
function makePartition(database: HistoryDatabase, table: PartitionedTable, day: DayNumber): Promise<boolean> {
  const name = partitionName(table, day);
  return briefly(database, async (query) => {
    // Other nodes make them too.
    await query(`select pg_advisory_xact_lock(${PARTITION_LOCK})`);
    const [existing] = await query<{ exists: boolean }>(`select to_regclass($1) is not null as exists`, [name]);
    if (existing?.exists) return false;
    const [found] = await query<{ used: boolean }>(
      `select exists (select from ${table.name}_default where not ${table.expired} and ${table.expired.replace('$1', '$2')}) as used`,
      [day, day + table.days],
    );
    if (found?.used !== false) return false;
    await query(`create table ${name} (like ${table.name} including all)`);
    await query(
      `alter table ${table.name} attach partition ${name} for values from (${day * table.unit}) to (${(day + table.days) * table.unit})`,
    );
    return true;
  });
}

async function dropBefore(database: HistoryDatabase, table: PartitionedTable, range: DropRange): Promise<number> {
  let dropped = 0;
  for (const day of await partitionsOf(database, table)) {
    const next = day + table.days;
    if (next <= range.end && (await dropPartition(database, table, day, range))) dropped += 1;
  }
  await deleteFromDefault(database, table, range);
  return dropped;
}

/** Without an index: the table is small, and `DELETE_BATCH` limits how long a statement locks rows. */
async function deleteFromDefault(database: HistoryDatabase, table: PartitionedTable, range: DropRange): Promise<void> {
  const { pending, imported, name } = table;
  const isExpired = table.expired.replace('$1', '$2');
  const isKept = imported?.rows(`$2::bigint * ${DAY_MS}`) ?? 'false';
  const condition = `${table.expired} ${pending === undefined ? '' : `and ((${isExpired} and not ${isKept}) or not ${pending.rows})`}`;
  for (let deleted = DELETE_BATCH; deleted === DELETE_BATCH; ) {
    const rows = await database.write<{ deleted: number }>({
      text: `with gone as (delete from ${name}_default where ctid = any(array(
          select t.ctid from ${name}_default t where ${condition} limit ${DELETE_BATCH})) returning 1)
        select count(*) as deleted from gone`,
      values: pending === undefined ? [range.end] : [range.end, range.expired],
    });
    deleted = rows[0]?.deleted ?? 0;
  }
}

/** False if it has rows that are still needed: reports may have been stored or compacted since the range was read. */
function dropPartition(
  database: HistoryDatabase,
  table: PartitionedTable,
  day: DayNumber,
  { expired }: DropRange,
): Promise<boolean> {
  const name = partitionName(table, day);
  const last = day + table.days - 1;
  const needed =
    last < expired ? table.imported?.existsIn(day, last, expired * DAY_MS) : table.pending?.existsIn(name, last);
  return briefly(database, async (query) => {
    if (needed !== undefined) {
      // Only new rows of these days wait. If one does, it prevents the drop, which then fails after `lock_timeout`.
      await query(`lock table only ${name} in share mode`);
      const [found] = await query<{ pending: boolean }>(needed);
      if (found?.pending !== false) return false;
    }
    await query(`drop table ${name}`);
    return true;
  });
}
