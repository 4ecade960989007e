import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

// Builds console/ into dist/console, unless what is there was made of the same sources.

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'dist/console');
const STAMP = 'built-from';

/** What the build reads: its own sources, the rules that it shares with the service, and the versions of its libraries. */
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

/** In a process of its own: what is built depends on its environment. */
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
  // Of several who build at a time the first is as good, and may be read already.
  if (isFresh(stamp)) rmSync(fresh, { recursive: true, force: true });
  else replaceBuild(fresh);
}

/** Whoever reads the folder meanwhile finds the old build or the new one. */
function replaceBuild(fresh: string): void {
  const old = `${fresh}.old`;
  try {
    if (existsSync(out)) renameSync(out, old);
    renameSync(fresh, out);
  } catch (error) {
    if (!existsSync(join(out, STAMP))) throw error;
  } finally {
    for (const left of [old, fresh]) rmSync(left, { recursive: true, force: true });
  }
}

if (import.meta.main) await build();
