import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { create } from 'tar';
import { connectPglite } from '../src/store/postgres/connect.ts';
import { migrate } from '../src/store/postgres/migrate.ts';
import { templateFile } from '../src/store/postgres/pglite/template.ts';

// Creates the embedded database that new data folders start with, unless dist/ has the one of these migrations.

/** Creates a migrated database in the folder `files`, which must not exist, and shuts it down. */
export async function createDatabase(files: string): Promise<void> {
  const database = await connectPglite(files, { template: null });
  await migrate(database);
  // The template databases of PostgreSQL are half of the files, and the service never creates a database.
  await database.write({ text: 'update pg_database set datistemplate = false' });
  for (const name of ['template0', 'template1']) await database.write({ text: `drop database ${name}` });
  await database.close();
  removeForks(files);
}

/**
 * Removes the free space maps and visibility maps of the tables, a seventh of the files. PostgreSQL creates them when it
 * needs them.
 */
function removeForks(files: string): void {
  for (const name of readdirSync(files, { recursive: true, encoding: 'utf8' }))
    if (/\/\d+_(fsm|vm)$/.test(name)) rmSync(join(files, name));
}

/** Writes an archive of the files of a database that was shut down, with a compression level of gzip. */
export const packDatabase = (files: string, file: string, level = 9): Promise<void> =>
  create({ file, cwd: files, gzip: { level }, portable: true }, ['.']);

/** Writes the archive of the files of a new database. */
async function writeTemplate(file: string): Promise<void> {
  const temporary = mkdtempSync(`${file}.making-`);
  try {
    const [files, packed] = [join(temporary, 'db'), join(temporary, 'packed')];
    await createDatabase(files);
    await packDatabase(files, packed);
    renameSync(packed, file);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** Those of earlier migrations. */
function removeOthers(file: string): void {
  for (const name of readdirSync(dirname(file))) {
    if (/^database-pglite-.*\.tar\.gz$/.test(name) && name !== basename(file)) rmSync(join(dirname(file), name));
  }
}

if (import.meta.main) {
  const file = templateFile();
  mkdirSync(dirname(file), { recursive: true });
  removeOthers(file);
  if (!existsSync(file)) await writeTemplate(file);
}
