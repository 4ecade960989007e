import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

// Builds console/ into dist/console and reference/ into dist/reference, where the existing build has other sources.

const root = fileURLToPath(new URL('..', import.meta.url));
const STAMP = 'built-from';

/** The folders of the builds' own sources; the console shares rules with the service, the reference its icon and colours with the console. */
const SOURCES = {
  console: ['console', 'src/domain', 'src/protocol'],
  reference: ['reference', 'console/src/icon.svg', 'console/src/shared.css'],
} as const;
type Pages = keyof typeof SOURCES;
const ALL = Object.keys(SOURCES) as Pages[];

const outputOf = (pages: Pages): string => join(root, 'dist', pages);

/** Hash of the build's inputs: its sources, and the versions of the libraries. */
function fingerprint(pages: Pages): string {
  const hash = createHash('sha256');
  const files = [...SOURCES[pages], 'package-lock.json', 'scripts/build-pages.ts', 'scripts/page-build.ts']
    .flatMap(filesIn)
    .sort();
  for (const file of files)
    hash
      .update(`${file.slice(root.length)}\0`)
      .update(readFileSync(file))
      .update('\0');
  return hash.digest('hex');
}

function filesIn(path: string): string[] {
  if (/\.\w+$/.test(path)) return [join(root, path)];
  return readdirSync(join(root, path), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

const isFresh = (pages: Pages, stamp: string): boolean => {
  const file = join(outputOf(pages), STAMP);
  return existsSync(file) && readFileSync(file, 'utf8') === stamp;
};

/** In a separate process, because the result depends on the environment. */
export async function buildPages(...wanted: Pages[]): Promise<void> {
  const stale = (wanted.length === 0 ? ALL : wanted).filter((pages) => !isFresh(pages, fingerprint(pages)));
  if (stale.length === 0) return;
  const env = { ...process.env, NODE_ENV: 'production' };
  await promisify(execFile)(process.execPath, [fileURLToPath(import.meta.url), ...stale], { env });
}

async function build(pages: Pages): Promise<void> {
  const stamp = fingerprint(pages);
  if (isFresh(pages, stamp)) return;
  process.env.NODE_ENV = 'production';
  const vite = await import('vite');
  const fresh = `${outputOf(pages)}.${process.pid}`;
  await vite.build({
    configFile: join(root, pages, 'vite.config.ts'),
    root: join(root, pages),
    logLevel: 'warn',
    build: { outDir: fresh, emptyOutDir: true },
  });
  writeFileSync(join(fresh, STAMP), stamp);
  // Of several concurrent builds the first is kept; it may be in use already.
  if (isFresh(pages, stamp)) rmSync(fresh, { recursive: true, force: true });
  else replaceBuild(outputOf(pages), fresh);
}

/** A concurrent reader sees either the old build or the new one. */
function replaceBuild(out: string, fresh: string): void {
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

if (import.meta.main) {
  const wanted = process.argv.slice(2) as Pages[];
  for (const pages of wanted.length === 0 ? ALL : wanted) await build(pages);
}
