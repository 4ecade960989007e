import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';
import type { StoredForms } from '../machines/stored-forms.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const kept = new URL('./previous-build.json.br', import.meta.url);
const patcher = new URL('./patch-sources.ts', import.meta.url);

/** The command line of a build of the service. */
export interface Build {
  /** Path of its main module. */
  program: string;
  /** Options of Node. */
  flags: readonly string[];
  env: Readonly<Record<string, string>>;
}

/** The build of this checkout. */
export const currentBuild: Build = { program: join(repository, 'src/cli/main.ts'), flags: [], env: {} };

/** What the kept build writes into the rows of actors. */
export const previousStoredForms = (): StoredForms => JSON.parse(keptFiles()['stored-forms.json'] as string);

/** Contents of the files of the kept build, by their path. */
const keptFiles = (bytes: Uint8Array = readFileSync(kept)): Record<string, string> =>
  JSON.parse(brotliDecompressSync(bytes).toString());

/**
 * The build that `npm run build:keep` has kept, which uses the packages of this checkout. Its folder has the digest of the
 * build and stays, so that its modules are compiled once.
 */
export function previousBuild(): Build {
  const bytes = readFileSync(kept);
  const digest = createHash('sha256').update(bytes).digest('hex').slice(0, 16);
  const folder = join(repository, 'node_modules/.cache/twinkeep', `previous-${digest}`);
  if (!existsSync(folder)) {
    mkdirSync(dirname(folder), { recursive: true });
    const partial = mkdtempSync(`${folder}-`);
    for (const [name, text] of Object.entries(keptFiles(bytes))) {
      mkdirSync(dirname(join(partial, name)), { recursive: true });
      writeFileSync(join(partial, name), text);
    }
    moveInto(partial, folder);
  }
  return { program: join(folder, 'dist/cli/main.js'), flags: [], env: {} };
}

/** Another process may have unpacked the same build. */
function moveInto(partial: string, folder: string): void {
  try {
    renameSync(partial, folder);
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}

/** A change of one source: `from` is replaced by `to`. */
export interface Patch {
  /** Path in `src`. */
  file: string;
  from: string;
  to: string;
}

/** A later build: the sources of this checkout with changes. */
export const patchedBuild = (patches: readonly Patch[]): Build => ({
  program: currentBuild.program,
  flags: ['--import', patcher.href],
  env: { SOURCE_PATCHES: JSON.stringify(patches) },
});
