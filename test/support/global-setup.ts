import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { buildPages } from '../../scripts/build-pages.ts';
import { type Server, stopWithParent, waitUntilReady } from './child-server.ts';
import { pgliteTemplate } from './pglite.ts';
import { startPostgres } from './postgres-server.ts';
import { findPrograms, freePort, type Programs, program } from './programs.ts';

/*
 * Temporary servers for a test run, if their programs are installed: PostgreSQL with fsync off (data survives a killed
 * server, but not a power failure), Redis without persistence. With `REQUIRE_SERVERS=1` a missing program is an error.
 */

declare module 'vitest' {
  export interface ProvidedContext {
    /** URL of a superuser without a database name; null if PostgreSQL is not installed. */
    postgresUrl: string | null;
    redisUrl: string | null;
    /** A migrated embedded database, to be copied. */
    pgliteTemplate: string;
    /** Folder for the embedded databases that workers share among their suites. Deleted after the run. */
    pgliteFolder: string;
    programs: Programs;
    /** Maximum polling time of a test. */
    pollMs: number;
  }
}

/** Called by Vitest before the first test file; the returned function is called after the last. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Built once for all workers, before they need it concurrently.
  const projects = new Set(project.vitest.projects.map(({ name }) => name));
  const [postgres, redis, template] = await Promise.all([
    ...([startPostgres(), startRedis(), pgliteTemplate()] as const),
    projects.has('browser') ? buildPages() : projects.has('wire') ? buildPages('reference') : null,
  ]);
  project.provide('pgliteTemplate', template);
  const pgliteFolder = mkdtempSync(join(tmpdir(), 'twinkeep-shared-pglite-'));
  project.provide('pgliteFolder', pgliteFolder);
  project.provide('postgresUrl', postgres?.url ?? null);
  project.provide('redisUrl', redis?.url ?? null);
  const programs = findPrograms();
  project.provide('programs', programs);
  const missing = [
    ...[postgres ? '' : 'PostgreSQL', redis ? '' : 'Redis'].filter(Boolean),
    ...Object.entries(programs).flatMap(([name, path]) => (path === null ? [name] : [])),
  ];
  const found = [postgres ? 'PostgreSQL' : '', redis ? 'Redis' : ''].filter(Boolean);
  console.log(
    `servers for this run: PGlite${found.map((name) => `, ${name}`).join('')}` +
      (missing.length > 0 ? `; not installed: ${missing.join(', ')}` : ''),
  );
  const stop = async (): Promise<void> => {
    await Promise.all([postgres?.stop(), redis?.stop()]);
    rmSync(pgliteFolder, { recursive: true, force: true });
  };
  if (missing.length > 0 && process.env.REQUIRE_SERVERS === '1') {
    await stop();
    throw new Error(`REQUIRE_SERVERS=1, and these are not installed: ${missing.join(', ')}`);
  }
  return stop;
}

async function startRedis(): Promise<Server | null> {
  const redis = program('redis-server') ?? program('valkey-server');
  if (!redis) return null;
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-redis-'));
  const port = await freePort();
  const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder];
  const child = spawn(redis, settings, { stdio: ['ignore', 'pipe', 'ignore'] });
  const stop = stopWithParent(child, 'SIGTERM', folder);
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output = `${output}${chunk}`.slice(-4_000);
  });
  await waitUntilReady(async () => /Ready to accept connections/.test(output), child, 'Redis').catch(async (error) => {
    await stop();
    throw error;
  });
  return { url: `redis://127.0.0.1:${port}`, stop };
}
