import { once } from 'node:events';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { builtTemplate } from './template.ts';
import { PgliteThread } from './thread.ts';
import type { Unpacking } from './unpack.ts';

// Works in the sources and in the output of `tsc`.
const unpackEntry = new URL(import.meta.url.endsWith('.ts') ? './unpack.ts' : './unpack.js', import.meta.url);

export interface EmbeddedOptions {
  /** Archive of the files of a new database; null: PGlite creates it. Default: that of the build. */
  template?: string | null;
}

/** Starts the thread of an embedded database. `dataDir`: PGlite's folder, or `memory://`. */
export async function startPglite(
  dataDir: string,
  { template = builtTemplate() }: EmbeddedOptions = {},
): Promise<PgliteThread> {
  const isNew = !dataDir.startsWith('memory:') && !existsSync(join(dataDir, 'PG_VERSION'));
  if (isNew) await initialise(dataDir, template);
  return new PgliteThread(dataDir);
}

/** Creates the files under another name first, so that an interrupted first start leaves no incomplete database. */
async function initialise(dataDir: string, template: string | null): Promise<void> {
  const temporary = `${dataDir}.making`;
  rmSync(temporary, { recursive: true, force: true });
  mkdirSync(temporary, { recursive: true, mode: 0o700 });
  if (template === null) {
    const thread = new PgliteThread(temporary);
    await thread.ready();
    await thread.close();
  } else {
    // Rejects with the error of the thread.
    await once(new Worker(unpackEntry, { workerData: { file: template, cwd: temporary } satisfies Unpacking }), 'exit');
  }
  renameSync(temporary, dataDir);
}
