import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chownSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { pgliteTemplate } from './pglite.ts';
import { findPrograms, freePort, type Programs, program } from './programs.ts';

/*
 * Throwaway servers for a test run, where their programs are found: PostgreSQL with fsync off (a killed server keeps
 * what it wrote; only a power cut would not), Redis without persistence. `REQUIRE_SERVERS=1` makes a missing one an error.
 */

declare module 'vitest' {
  export interface ProvidedContext {
    /** Of a superuser, without a database's name; null where PostgreSQL is not installed. */
    postgresUrl: string | null;
    redisUrl: string | null;
    /** A migrated embedded database, to be copied. */
    pgliteTemplate: string;
    programs: Programs;
    /** How long a test polls for something at most. */
    pollMs: number;
  }
}

interface Server {
  url: string;
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 20_000;

/** Vitest calls it once, before the first test file, and what it returns after the last. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, redis, template] = await Promise.all([startPostgres(), startRedis(), pgliteTemplate()]);
  project.provide('pgliteTemplate', template);
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
  };
  if (missing.length > 0 && process.env.REQUIRE_SERVERS === '1') {
    await stop();
    throw new Error(`REQUIRE_SERVERS=1, and these are not installed: ${missing.join(', ')}`);
  }
  return stop;
}

function versionFolders(root: string): string[] {
  try {
    return readdirSync(root)
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => join(root, version, 'bin'));
  } catch {
    return [];
  }
}

async function until(ready: () => Promise<boolean>, child: ChildProcess, name: string): Promise<void> {
  const end = Date.now() + START_TIMEOUT_MS;
  while (!(await ready())) {
    if (child.exitCode !== null) throw new Error(`${name} ended at once, with ${child.exitCode}`);
    if (Date.now() > end) throw new Error(`${name} did not start within ${START_TIMEOUT_MS} ms`);
    await pause(25);
  }
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve();
    else child.once('exit', () => resolve());
  });
}

/** Whatever becomes of this process, the server goes with it. */
function tie(child: ChildProcess, signal: NodeJS.Signals, folder: string): () => Promise<void> {
  const atExit = (): void => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', atExit);
  return async () => {
    process.off('exit', atExit);
    child.kill(signal);
    const late = setTimeout(() => child.kill('SIGKILL'), 5_000);
    await ended(child);
    clearTimeout(late);
    rmSync(folder, { recursive: true, force: true });
  };
}

async function startPostgres(): Promise<Server | null> {
  const folders = versionFolders('/usr/lib/postgresql');
  const initdb = program('initdb', folders);
  const postgres = program('postgres', folders);
  if (!initdb || !postgres) return null;
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-pg-'));
  const data = join(folder, 'data');
  // PostgreSQL refuses to run as root: it runs as its own user then.
  const user = process.getuid?.() === 0 ? postgresUser() : {};
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
  const options = { ...user, cwd: folder, env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' } };
  execFileSync(initdb, ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync', '-E', 'UTF8'], {
    ...options,
    stdio: 'pipe',
  });
  const port = await freePort();
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    max_connections: 200,
    shared_buffers: '64MB',
    logging_collector: 'off',
  };
  const given = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const child = spawn(postgres, ['-D', data, ...given], { ...options, stdio: 'ignore' });
  const stop = tie(child, 'SIGINT', folder);
  const url = `postgres://postgres@127.0.0.1:${port}`;
  await until(() => answers(`${url}/postgres`), child, 'PostgreSQL').catch(async (error) => {
    await stop();
    throw error;
  });
  return { url, stop };
}

function postgresUser(): { uid?: number; gid?: number } {
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

async function startRedis(): Promise<Server | null> {
  const redis = program('redis-server') ?? program('valkey-server');
  if (!redis) return null;
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-redis-'));
  const port = await freePort();
  const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder];
  const child = spawn(redis, settings, { stdio: ['ignore', 'pipe', 'ignore'] });
  const stop = tie(child, 'SIGTERM', folder);
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => {
    said = `${said}${chunk}`.slice(-4_000);
  });
  await until(async () => /Ready to accept connections/.test(said), child, 'Redis').catch(async (error) => {
    await stop();
    throw error;
  });
  return { url: `redis://127.0.0.1:${port}`, stop };
}
