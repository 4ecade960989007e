import type { EpochMs, Milliseconds } from '../../domain/values.ts';
import type { DayNumber, HistoryDays } from '../contract/history.ts';
import type { Database, Query } from './database.ts';
import { SCHEMA_LOCK_TIMEOUT_MS } from './lock-retry.ts';

/** Key of an advisory lock; it must differ from that of the migrations and of the active lock. */
const PARTITION_LOCK = 7_421_002;
const DAY_MS: Milliseconds = 86_400_000;
/** Partitions exist for so many days ahead, in case none can be made for some time. */
const DAYS_AHEAD = 4;
/** Reports that could not be compacted are kept so many days longer than samples. */
export const UNCOMPACTED_DAYS = 2;

/** A table with a partition for each `days` days. `unit`: of its bounds. */
interface PartitionedTable {
  name: string;
  days: number;
  unit: number;
  /** Condition on the rows of its default partition that end before the day `$1`. */
  expired: string;
}

const samples: PartitionedTable = { name: 'samples', days: 1, unit: DAY_MS, expired: `at < $1::bigint * ${DAY_MS}` };
const parts: PartitionedTable = { name: 'history_parts', days: 1, unit: 1, expired: 'day < $1::integer' };
const segments: PartitionedTable = { name: 'history_segments', days: 1, unit: 1, expired: 'day < $1::integer' };
/** A partition has a few megabytes for a thousand properties: one for each day would be hundreds of small tables. */
const rollups: PartitionedTable = { name: 'history_rollups', days: 30, unit: 1, expired: 'day < $1::integer' };

const tables = [samples, parts, segments, rollups];

const partitionName = ({ name }: PartitionedTable, first: DayNumber): string => `${name}_d${first}`;

/** Makes the missing partitions up to `DAYS_AHEAD`; returns how many. */
export async function makePartitions(database: Database, today: DayNumber): Promise<number> {
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
  database: Database,
  { today, samplesFrom, rollupsFrom }: HistoryDays,
  compactedBefore: EpochMs,
): Promise<number> {
  const [open] = await database.read<{ day: DayNumber | null }>({
    text: 'select min(open_from) as day from history_positions where open_from is not null',
  });
  const uncompacted = Math.max(Math.floor(compactedBefore / DAY_MS), samplesFrom - UNCOMPACTED_DAYS);
  const ends: [PartitionedTable, DayNumber][] = [
    [samples, Math.min(uncompacted, today)],
    // Samples of yesterday may still arrive.
    [parts, Math.min(open?.day ?? today, today - 1)],
    [segments, samplesFrom],
    [rollups, rollupsFrom],
  ];
  let dropped = 0;
  for (const [table, end] of ends) dropped += await dropBefore(database, table, end);
  return dropped;
}

/** The first days of its partitions. */
async function partitionsOf(database: Database, { name }: PartitionedTable): Promise<DayNumber[]> {
  const rows = await database.read<{ day: DayNumber }>({
    text: `select substring(c.relname from '_d(\\d+)$')::integer as day from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = $1::regclass and c.relname ~ '_d\\d+$'`,
    values: [name],
  });
  return rows.map(({ day }) => day);
}

/** Statements that wait for the lock of a table wait for a short time, because all others wait behind them. */
const briefly = <T>(database: Database, run: (query: Query) => Promise<T>): Promise<T> =>
  database.transaction(async (query) => {
    await query(`set local lock_timeout = ${SCHEMA_LOCK_TIMEOUT_MS}`);
    return run(query);
  });

/**
 * Attached after it was created, which needs no lock that reports wait for. False if the default partition has rows of these
 * days: they stay there until they expire.
 */
function makePartition(database: Database, table: PartitionedTable, day: DayNumber): Promise<boolean> {
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

async function dropBefore(database: Database, table: PartitionedTable, end: DayNumber): Promise<number> {
  const expired = (await partitionsOf(database, table)).filter((day) => day + table.days <= end);
  for (const day of expired) await briefly(database, (query) => query(`drop table ${partitionName(table, day)}`));
  await database.write({ text: `delete from ${table.name}_default where ${table.expired}`, values: [end] });
  return expired.length;
}
