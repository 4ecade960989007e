import type { Database, Query } from './database.ts';

/** An index on a table that may be large. */
export interface MigrationIndex {
  name: string;
  /** Table, columns and condition: `table (column) where …`. */
  on: string;
}

/** Key of the advisory lock of the process that makes indexes; it must differ from those of the other locks. */
const INDEX_LOCK = 7_421_006;

/**
 * Makes the indexes that do not exist while other sessions read and write the tables (PostgreSQL, "Building Indexes
 * Concurrently"): it waits for transactions that are running, and no transaction waits for it. Resolves to false if
 * another process is making indexes. Can be repeated after an interruption. `onSession` is called in the session that makes
 * them, before the first statement that may wait.
 */
export const createIndexes = (
  database: Database,
  indexes: readonly MigrationIndex[],
  onSession: (query: Query) => Promise<void>,
): Promise<boolean> =>
  database.session(async (query) => {
    await onSession(query);
    await query('set lock_timeout = 0');
    // The lock of migrations would be waited for by transactions that this waits for.
    const [lock] = await query<{ held: boolean }>('select pg_try_advisory_lock($1) as held', [INDEX_LOCK]);
    if (lock?.held !== true) return false;
    for (const { name, on } of indexes) {
      const [found] = await query<{ valid: boolean }>(
        'select indisvalid as valid from pg_index where indexrelid = to_regclass($1)',
        [name],
      );
      if (found?.valid === true) continue;
      // Left by an attempt that was interrupted: it is maintained and not used.
      if (found !== undefined) await query(`drop index concurrently ${name}`);
      await query(`create index concurrently ${name} on ${on}`);
    }
    return true;
  });

/** The same in a transaction, for a database that no other session uses. */
export const createIndexesAlone = (indexes: readonly MigrationIndex[]): string =>
  indexes.map(({ name, on }) => `create index ${name} on ${on};`).join('\n');
