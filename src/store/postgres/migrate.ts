import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { Milliseconds } from '../../domain/values.ts';
import { createIndexes, createIndexesAlone } from './concurrent-indexes.ts';
import type { Database, Query } from './database.ts';
import { FIRST_NODE_EPOCH } from './fence.ts';
import { type LockRetry, retryWhileLocked } from './lock-retry.ts';
import { MigrationProgress, type ProgressTimes } from './migration-progress.ts';
import { type Migration, migrations, schemaLevelOf } from './migrations.ts';

/** The database was changed by another program version, or is unknown to this one. */
export class SchemaMismatch extends Error {
  override name = 'SchemaMismatch';
}

/** Key of the migrations' advisory lock; it must differ from the active lock's. */
export const MIGRATION_LOCK = 7_421_001;
/** Pauses between attempts at a migration while other transactions have its tables in use, such as those of `pg_dump`. */
const LOCK_PAUSES: BackoffLimits = { firstMs: 250, maxMs: 10_000 };
/** The level of nodes before levels were registered: older ones did not share a database. */
const FIRST_SHARED_LEVEL = 22;

/** Two tables, because builds before levels start on any database whose table `migrations` has no id that they do not know. */
const createTables = ['migrations', 'expansions']
  .map(
    (table) => `create table if not exists ${table} (
       id integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now())`,
  )
  .join(';');

/** Builds must know the migrations of the table `migrations`, and need not know those of `expansions`. */
const readApplied = `select id, name, checksum, true as required from migrations
  union all select id, name, checksum, false from expansions`;

/**
 * From then on builds before level `$1` do not start. Ids in `migrations` have no gap that such a build could know, so
 * the highest one is that level.
 */
const requireLevel = `with required as (delete from expansions where id <= $1 returning id, name, checksum, applied_at)
  insert into migrations (id, name, checksum, applied_at) select id, name, checksum, applied_at from required`;

/** Nodes that were not fenced: one whose process has ended may still have sessions until it is. */
const olderNodes = `select build from nodes where epoch = ${FIRST_NODE_EPOCH} and number is not null and schema_level < $1`;

interface AppliedMigration {
  id: number;
  name: string;
  checksum: string;
  required: boolean;
}

export interface MigrateOptions {
  /** The migrations that this build knows. */
  known?: readonly Migration[];
  /**
   * This process shares the database with other nodes, so that another build may have applied expansions that this one
   * does not know. A process that has the database to itself refuses them.
   */
  shared?: boolean;
  /** How long a statement waits for a lock on a table, while other statements wait behind it. Default: no limit. */
  lockTimeoutMs?: Milliseconds;
  /** Repeats a migration that did not get a lock in time. Default: it throws `StoreUnavailable`. */
  retry?: LockRetry;
  /** When a migration that takes long is reported to the log of `retry`. */
  progress?: ProgressTimes;
}

export interface MigrationResult {
  /** Number of migrations applied by this call. */
  applied: number;
  /** Contracts that are not applied while nodes of older builds are alive; call again later. */
  waiting: readonly Migration[];
}

/**
 * Migrates the schema, each migration in its own transaction, and indexes of large tables without one. Throws `SchemaMismatch` if an applied migration has changed
 * since, or if the database requires a newer build, and an `AbortError` if the signal of `retry` aborts.
 */
export async function migrate(database: Database, options: MigrateOptions = {}): Promise<MigrationResult> {
  const { known = migrations, shared = false } = options;
  const fields = { tables: 'migrations, expansions' };
  const progress = progressOf(database, options, fields);
  const unapplied = await progress.during(() =>
    locked(database, options, { fields, progress }, async (query) => {
      await query(createTables);
      return unappliedOf(await query<AppliedMigration>(readApplied), known, shared);
    }),
  );
  return applyEach(database, unapplied, options);
}

/**
 * The migrations of `known` that a database with these applied ones lacks. Read under the lock, so that most starts need
 * one transaction in place of one for each migration.
 */
function unappliedOf(rows: readonly AppliedMigration[], known: readonly Migration[], shared: boolean): Migration[] {
  checkLevel(rows, schemaLevelOf(known), shared);
  const applied = new Map(rows.map((row) => [row.id, row]));
  return known.filter((migration) => {
    const done = applied.get(migration.id);
    if (done) checkText(done, migration);
    return done === undefined;
  });
}

/** Applies the contracts that waited, as far as no node of an older build is alive. */
export const applyContracts = (
  database: Database,
  waiting: readonly Migration[],
  options: MigrateOptions = {},
): Promise<MigrationResult> => applyEach(database, waiting, options);

/** The ids of the applied migrations. */
export async function appliedMigrations(database: Database): Promise<Set<number>> {
  const rows = await database.read<AppliedMigration>({ text: readApplied });
  return new Set(rows.map(({ id }) => id));
}

async function applyEach(
  database: Database,
  wanted: readonly Migration[],
  options: MigrateOptions,
): Promise<MigrationResult> {
  const { known = migrations, shared = false } = options;
  let applied = 0;
  const waiting: Migration[] = [];
  for (const migration of wanted) {
    const progress = progressOf(database, options, { migration: migration.id, name: migration.name });
    const outcome = await progress.during(async () => {
      if (!database.embedded) await makeIndexes(database, migration, options, progress);
      const text = database.embedded ? migration.sql + createIndexesAlone(migration.indexes ?? []) : migration.sql;
      const run = (query: Query) => apply(query, migration, text, { known, shared });
      return locked(database, options, { fields: { migration: migration.id }, progress }, run);
    });
    if (outcome === 'applied') applied += 1;
    if (outcome === 'waiting') waiting.push(migration);
  }
  return { applied, waiting };
}

const progressOf = (database: Database, { retry, progress }: MigrateOptions, fields: object): MigrationProgress =>
  new MigrationProgress(database, retry?.log ?? null, fields, progress);

/** Resolves when the indexes of the migration exist, made by this process or another one. */
async function makeIndexes(
  database: Database,
  { id, indexes }: Migration,
  { retry }: MigrateOptions,
  progress: MigrationProgress,
): Promise<void> {
  if (indexes === undefined) return;
  for (let attempts = 1; ; attempts++) {
    if ((await appliedMigrations(database)).has(id)) return;
    const names = indexes.map(({ name }) => name);
    retry?.log.info({ migration: id, indexes: names }, 'schema: making indexes');
    const attempt = () => createIndexes(database, indexes, (query) => progress.runsIn(query));
    // It can be in a deadlock with a transaction that locks the table.
    const fields = { migration: id };
    if (await (retry === undefined ? attempt() : retryWhileLocked(attempt, retry, LOCK_PAUSES, fields))) return;
    progress.waitsFor('another process makes the indexes');
    await pause(backoffDelay(attempts, LOCK_PAUSES, 'half'), undefined, retry && { signal: retry.signal });
  }
}

/** Serializes processes that start at the same time. `fields` describe the change in the log when it is repeated. */
function locked<T>(
  database: Database,
  { lockTimeoutMs, retry }: MigrateOptions,
  { fields, progress }: { fields: object; progress: MigrationProgress },
  run: (query: Query) => Promise<T>,
): Promise<T> {
  const attempt = () =>
    database.transaction(async (query) => {
      // Another process may be migrating, and a large table may take long.
      await query('set local statement_timeout = 0');
      await progress.runsIn(query);
      await query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
      if (lockTimeoutMs !== undefined) await query(`set local lock_timeout = ${lockTimeoutMs}`);
      return run(query);
    });
  return retry === undefined ? attempt() : retryWhileLocked(attempt, retry, LOCK_PAUSES, fields);
}

async function apply(
  query: Query,
  migration: Migration,
  text: string,
  { known, shared }: { known: readonly Migration[]; shared: boolean },
): Promise<'applied' | 'unchanged' | 'waiting'> {
  const rows = await query<AppliedMigration>(readApplied);
  checkLevel(rows, schemaLevelOf(known), shared);
  const done = rows.find(({ id }) => id === migration.id);
  if (done) {
    checkText(done, migration);
    return 'unchanged';
  }
  if (migration.change === 'contract' && (await hasOlderNodes(query, oldestLevelOf(migration)))) return 'waiting';
  if (text !== '') await query(text);
  await query('insert into expansions (id, name, checksum) values ($1, $2, $3)', [
    migration.id,
    migration.name,
    checksum(migration),
  ]);
  if (migration.change === 'contract') await query(requireLevel, [oldestLevelOf(migration)]);
  return 'applied';
}

/**
 * A node registers its level before it calls this, and a contract reads the levels under the same lock: either the
 * contract sees the node, or the node sees the contract.
 */
function checkLevel(rows: readonly AppliedMigration[], level: number, shared: boolean): void {
  const newest = Math.max(0, ...rows.filter(({ required }) => required || !shared).map(({ id }) => id));
  if (newest <= level) return;
  throw new SchemaMismatch(
    `The database has migration ${newest}, but this program version only knows ${level}: start a newer version.`,
  );
}

function checkText(done: AppliedMigration, migration: Migration): void {
  if (done.checksum === checksum(migration)) return;
  throw new SchemaMismatch(
    `Migration ${done.id} (${done.name}) was applied to this database with a text that differs from this program's. ` +
      'An applied migration must never be changed: restore it and add a new one.',
  );
}

async function hasOlderNodes(query: Query, level: number): Promise<boolean> {
  if (level <= FIRST_SHARED_LEVEL) return false;
  return (await query(olderNodes, [level])).length > 0;
}

const oldestLevelOf = ({ id, oldestLevel }: Migration): number => oldestLevel ?? id;

const checksum = ({ sql, indexes }: Migration): string =>
  createHash('sha256')
    .update(indexes === undefined ? sql : JSON.stringify([sql, indexes]))
    .digest('hex');
