import { join } from 'node:path';
import type { Store } from './contract.ts';
import { connectPglite, connectPostgres } from './postgres/connect.ts';
import type { Database } from './postgres/database.ts';
import { migrate } from './postgres/migrations.ts';
import { createStore } from './postgres/store.ts';

/**
 * The store of this process, migrated: PostgreSQL where there is a URL, else the embedded one in `dataDir`. Throws
 * `SchemaMismatch` when the schema is not this program's, `StoreUnavailable` when nobody answers.
 */
export async function openStore(at: { databaseUrl: string | null; dataDir: string }): Promise<Store> {
  const { databaseUrl, dataDir } = at;
  const embedded = databaseUrl === null;
  const database: Database = embedded ? await connectPglite(join(dataDir, 'db')) : connectPostgres(databaseUrl);
  try {
    await migrate(database);
  } catch (error) {
    await database.close().catch(() => {});
    throw error;
  }
  return createStore(database, embedded ? 1 : 2);
}
