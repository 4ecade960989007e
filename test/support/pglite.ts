import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createDatabase } from '../../scripts/build-database.ts';
import { connectPglite } from '../../src/store/postgres/connect.ts';
import { builtTemplate, templateKey } from '../../src/store/postgres/pglite/template.ts';

/*
 * The first start of an embedded database takes seconds, a copy of its files little time: a template is created for
 * each schema and version of PGlite, and cached for later runs.
 */

const cacheFolder = fileURLToPath(new URL('../../node_modules/.cache/twinkeep/', import.meta.url));

/** Folder of a migrated database that was shut down properly. Do not open it: copy it with `copyPglite`. */
export async function pgliteTemplate(): Promise<string> {
  const template = join(cacheFolder, templateKey());
  if (existsSync(template)) return template;
  mkdirSync(cacheFolder, { recursive: true });
  const temporary = mkdtempSync(join(cacheFolder, 'making-'));
  try {
    const files = join(temporary, 'db');
    if (builtTemplate() === null) await createDatabase(files);
    else await (await connectPglite(files)).close();
    renameSync(join(temporary, 'db'), template);
  } catch (error) {
    // Another run was faster; its template is equivalent.
    if (!existsSync(template)) throw error;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
  return template;
}

/** Copies the files of a new database to where the service expects them in its `DATA_DIR`. */
export function copyPglite(template: string, dataDir: string): string {
  const files = join(dataDir, 'db');
  cpSync(template, files, { recursive: true });
  return files;
}
