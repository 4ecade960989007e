import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { migrations } from '../migrations.ts';

/*
 * PGlite takes several seconds to create a database, and to unpack one little. So the build of the package creates an
 * empty one with all migrations, and a new data folder starts with its files.
 */

/** The same path in the package and in a checkout. */
const BUILT = new URL('../../../../dist/', import.meta.url);

/** Changes when `scripts/build-database.ts` changes what the files contain. */
const CONTENT = 'without maps';

/** Identifies the files of a new database: by the version of PGlite, the migrations and the content. */
export function templateKey(): string {
  const hash = createHash('sha256').update(CONTENT);
  for (const { id, name, sql } of migrations) hash.update(JSON.stringify([id, name, sql]));
  // The package does not export package.json: it is the nearest one above the entry point.
  const entry = createRequire(import.meta.url).resolve('@electric-sql/pglite');
  const { version } = JSON.parse(readFileSync(join(entry, '../../package.json'), 'utf8')) as { version: string };
  return `pglite-${version}-${hash.digest('hex').slice(0, 16)}`;
}

/** Path of the template of this build, a gzipped tar archive, whether it exists or not. */
export const templateFile = (): string => fileURLToPath(new URL(`database-${templateKey()}.tar.gz`, BUILT));

/** Path of the template if it was built. A checkout whose migrations have changed since has none. */
export function builtTemplate(): string | null {
  const file = templateFile();
  return existsSync(file) ? file : null;
}
