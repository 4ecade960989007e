import { createHash } from 'node:crypto';
import type { Database, Query } from './database.ts';
import { ground } from './migrations/0001-ground.ts';
import { confirmations } from './migrations/0002-confirmations.ts';
import { firmware } from './migrations/0003-firmware.ts';
import { people } from './migrations/0004-people.ts';
import { audit } from './migrations/0005-audit.ts';
import { memories } from './migrations/0006-memories.ts';
import { plans } from './migrations/0007-plans.ts';
import { cognition } from './migrations/0008-cognition.ts';
import { liveContext } from './migrations/0009-live-context.ts';
import { inPlace } from './migrations/0010-in-place.ts';
import { statistics } from './migrations/0011-statistics.ts';
import { fieldsInColumns } from './migrations/0012-fields-in-columns.ts';
import { nodes } from './migrations/0013-nodes.ts';
import { clock } from './migrations/0017-clock.ts';
import { liveColumn } from './migrations/0018-live-column.ts';
import { shardColumns } from './migrations/0019-shards.ts';
import { cache } from './migrations/0020-cache.ts';
import { artifactChunks } from './migrations/0021-artifact-chunks.ts';
import { nodeFigures } from './migrations/0022-node-figures.ts';

export interface Migration {
  id: number;
  name: string;
  sql: string;
}

/**
 * In order, for PostgreSQL 14 and later and for PGlite. A released migration is never changed; add a new one instead.
 * Databases contain the ids and the names.
 */
export const migrations: readonly Migration[] = [
  { id: 1, name: 'ground', sql: ground },
  { id: 2, name: 'confirmations', sql: confirmations },
  { id: 3, name: 'firmware', sql: firmware },
  { id: 4, name: 'people', sql: people },
  { id: 5, name: 'audit', sql: audit },
  { id: 6, name: 'memories', sql: memories },
  { id: 7, name: 'plans', sql: plans },
  { id: 8, name: 'cognition', sql: cognition },
  { id: 9, name: 'moving', sql: liveContext },
  { id: 10, name: 'in place', sql: inPlace },
  { id: 11, name: 'statistics', sql: statistics },
  { id: 12, name: 'said once', sql: fieldsInColumns },
  { id: 13, name: 'nodes', sql: nodes },
  // 14 to 16 were never released.
  { id: 17, name: 'clock', sql: clock },
  { id: 18, name: 'live column', sql: liveColumn },
  { id: 19, name: 'shards', sql: shardColumns },
  { id: 20, name: 'cache', sql: cache },
  { id: 21, name: 'artifact chunks', sql: artifactChunks },
  { id: 22, name: 'node figures', sql: nodeFigures },
];

/** The database's schema was changed by another program version, or is unknown to this one. */
export class SchemaMismatch extends Error {
  override name = 'SchemaMismatch';
}

/** Key of the migrations' advisory lock; it must differ from the active lock's. */
const MIGRATION_LOCK = 7_421_001;

const checksum = (migration: Migration): string => createHash('sha256').update(migration.sql).digest('hex');

/**
 * Migrates the schema, each migration in its own transaction, and returns how many were applied. Throws
 * `SchemaMismatch` if an applied migration has changed since, or if a newer program migrated the database.
 */
export async function migrate(database: Database, known: readonly Migration[] = migrations): Promise<number> {
  await locked(database, (query) =>
    query(
      `create table if not exists migrations (
         id integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now())`,
    ),
  );
  let applied = 0;
  for (const migration of known) {
    applied += await locked(database, (query) => apply(query, migration, known));
  }
  return applied;
}

/** Serializes processes that start at the same time. */
const locked = <T>(database: Database, run: (query: Query) => Promise<T>): Promise<T> =>
  database.transaction(async (query) => {
    // Another process may be migrating, and a large table may take long.
    await query('set local statement_timeout = 0');
    await query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
    return run(query);
  });

async function apply(query: Query, migration: Migration, known: readonly Migration[]): Promise<number> {
  const rows = await query<{ id: number; name: string; checksum: string }>('select id, name, checksum from migrations');
  const newest = Math.max(0, ...rows.map((row) => row.id));
  // Ids may have gaps.
  const newestKnown = Math.max(0, ...known.map(({ id }) => id));
  if (newest > newestKnown) {
    throw new SchemaMismatch(
      `The database has migration ${newest}, but this program version only knows ${newestKnown}: start a newer version.`,
    );
  }
  const done = rows.find((row) => row.id === migration.id);
  if (done) {
    if (done.checksum === checksum(migration)) return 0;
    throw new SchemaMismatch(
      `Migration ${done.id} (${done.name}) was applied to this database with a text that differs from this program's. ` +
        'An applied migration must never be changed: restore it and add a new one.',
    );
  }
  await query(migration.sql);
  await query('insert into migrations (id, name, checksum) values ($1, $2, $3)', [
    migration.id,
    migration.name,
    checksum(migration),
  ]);
  return 1;
}
