import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connectPglite } from '../../src/store/postgres/connect.ts';
import type { Database } from '../../src/store/postgres/database.ts';
import { migrate, migrations } from '../../src/store/postgres/migrations.ts';

/*
 * The first start of an embedded database takes seconds, a copy of its files a moment: one is made for each schema and
 * version of PGlite, and kept where the next run finds it.
 */

const kept = fileURLToPath(new URL('../../node_modules/.cache/twinkeep/', import.meta.url));

function keyOfTemplate(): string {
  const hash = createHash('sha256');
  for (const { id, name, sql } of migrations) hash.update(JSON.stringify([id, name, sql]));
  // It exports no package.json: the nearest one above its entry is its own.
  const entry = createRequire(import.meta.url).resolve('@electric-sql/pglite');
  const { version } = JSON.parse(readFileSync(join(entry, '../../package.json'), 'utf8')) as { version: string };
  return `pglite-${version}-without-templates-${hash.digest('hex').slice(0, 16)}`;
}

/** A folder with a migrated and properly closed database. Not to be opened: `copyPglite` it. */
export async function pgliteTemplate(): Promise<string> {
  const template = join(kept, keyOfTemplate());
  if (existsSync(template)) return template;
  mkdirSync(kept, { recursive: true });
  const making = mkdtempSync(join(kept, 'making-'));
  try {
    const database = await connectPglite(join(making, 'db'));
    await migrate(database);
    await dropUnused(database);
    await database.close();
    renameSync(join(making, 'db'), template);
  } catch (error) {
    // Another run was quicker; its template is as good.
    if (!existsSync(template)) throw error;
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
  return template;
}

/** The two databases that new ones are copied from are half of the files, and the service never makes a new one. */
async function dropUnused(database: Database): Promise<void> {
  await database.write({ text: 'update pg_database set datistemplate = false' });
  for (const name of ['template0', 'template1']) await database.write({ text: `drop database ${name}` });
}

/** The files of a new database, as the service looks for them in its `DATA_DIR`. */
export function copyPglite(template: string, dataDir: string): string {
  const files = join(dataDir, 'db');
  cpSync(template, files, { recursive: true });
  return files;
}
