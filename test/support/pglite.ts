import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connectPglite } from '../../src/store/postgres/connect.ts';
import type { Database } from '../../src/store/postgres/database.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { migrations } from '../../src/store/postgres/migrations.ts';

/*
 * The first start of an embedded database takes seconds, a copy of its files little time: a template is created for
 * each schema and version of PGlite, and cached for later runs.
 */

const cacheFolder = fileURLToPath(new URL('../../node_modules/.cache/twinkeep/', import.meta.url));

function keyOfTemplate(): string {
  const hash = createHash('sha256');
  for (const { id, name, sql } of migrations) hash.update(JSON.stringify([id, name, sql]));
  // The package does not export package.json: it is the nearest one above the entry point.
  const entry = createRequire(import.meta.url).resolve('@electric-sql/pglite');
  const { version } = JSON.parse(readFileSync(join(entry, '../../package.json'), 'utf8')) as { version: string };
  return `pglite-${version}-without-templates-${hash.digest('hex').slice(0, 16)}`;
}

/** Folder of a migrated database that was shut down properly. Do not open it: copy it with `copyPglite`. */
export async function pgliteTemplate(): Promise<string> {
  const template = join(cacheFolder, keyOfTemplate());
  if (existsSync(template)) return template;
  mkdirSync(cacheFolder, { recursive: true });
  const temporary = mkdtempSync(join(cacheFolder, 'making-'));
  try {
    const database = await connectPglite(join(temporary, 'db'));
    await migrate(database);
    await dropUnused(database);
    await database.close();
    renameSync(join(temporary, 'db'), template);
  } catch (error) {
    // Another run was faster; its template is equivalent.
    if (!existsSync(template)) throw error;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
  return template;
}

/** Drops the template databases: they are half of the files, and the service never creates a database. */
async function dropUnused(database: Database): Promise<void> {
  await database.write({ text: 'update pg_database set datistemplate = false' });
  for (const name of ['template0', 'template1']) await database.write({ text: `drop database ${name}` });
}

/** Copies the files of a new database to where the service expects them in its `DATA_DIR`. */
export function copyPglite(template: string, dataDir: string): string {
  const files = join(dataDir, 'db');
  cpSync(template, files, { recursive: true });
  return files;
}
