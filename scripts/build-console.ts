import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

// Builds console/ into dist/console, unless the existing build has the same sources.

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'dist/console');
const STAMP = 'built-from';

/**
 * Hash of the build's inputs: the console's sources, the rules shared with the service, and the versions of the
 * libraries.
 */
function fingerprint(): string {
  const hash = createHash('sha256');
  const files = [
    ...['console', 'src/domain', 'src/protocol'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name)),
    ),
    ...['package-lock.json', 'scripts/build-console.ts'].map((file) => join(root, file)),
  ].sort();
  for (const file of files)
    hash
      .update(`${file.slice(root.length)}\0`)
      .update(readFileSync(file))
      .update('\0');
  return hash.digest('hex');
}

const isFresh = (stamp: string): boolean => {
  const file = join(out, STAMP);
  return existsSync(file) && readFileSync(file, 'utf8') === stamp;
};

/** In a separate process, because the result depends on the environment. */
export async function buildConsole(): Promise<void> {
  if (isFresh(fingerprint())) return;
  const env = { ...process.env, NODE_ENV: 'production' };
  await promisify(execFile)(process.execPath, [fileURLToPath(import.meta.url)], { env });
}

async function build(): Promise<void> {
  const stamp = fingerprint();
  if (isFresh(stamp)) return;
  process.env.NODE_ENV = 'production';
  const vite = await import('vite');
  const fresh = `${out}.${process.pid}`;
  await vite.build({
    configFile: join(root, 'console/vite.config.ts'),
    root: join(root, 'console'),
    logLevel: 'warn',
    build: { outDir: fresh, emptyOutDir: true },
  });
  writeFileSync(join(fresh, STAMP), stamp);
  // Of several concurrent builds the first is kept; it may be in use already.
  if (isFresh(stamp)) rmSync(fresh, { recursive: true, force: true });
  else replaceBuild(fresh);
}

/** A concurrent reader sees either the old build or the new one. */
function replaceBuild(fresh: string): void {
  const old = `${fresh}.old`;
  try {
    if (existsSync(out)) renameSync(out, old);
    renameSync(fresh, out);
  } catch (error) {
    if (!existsSync(join(out, STAMP))) throw error;
  } finally {
    for (const folder of [old, fresh]) rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) await build();
