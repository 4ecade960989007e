import { execFileSync, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { cpuOfSessions, cpuOfTree } from './cpu.ts';

/** A PostgreSQL cluster for one benchmark, as durable as a real one: `fsync` and `synchronous_commit` are on. */
export interface Cluster {
  url: string;
  /** Settings that determine whether a commit is durable, as reported by the server. */
  describe(): Promise<string>;
  /** Creates a database in the cluster; returns its URL. */
  database(name: string): Promise<string>;
  stop(): Promise<void>;
  /** Processor time in microseconds that the server has used so far, including open sessions. */
  cpu(): number;
  /** The same without the sessions of other databases. */
  cpuOfDatabase(name: string): number;
}

const DEBIAN = '/usr/lib/postgresql';
const USER = 'twinkeep';

const SHARED_BUFFERS_MB = 256;

/** Segments of 16 MiB: more than a benchmark writes. */
const WAL_SEGMENTS = 100;

/** Unless `short`, the cluster resembles one in use: its WAL segments are recycled ones. */
export async function startCluster({ short }: { short: boolean }): Promise<Cluster> {
  const bin = binaries();
  const folder = mkdtempSync(join(tmpdir(), 'bench-postgres-'));
  const owner: { uid?: number; gid?: number } = process.getuid?.() === 0 ? postgresUser() : {};
  if (owner.uid !== undefined && owner.gid !== undefined) chownSync(folder, owner.uid, owner.gid);
  const data = join(folder, 'data');
  const quiet = { ...owner, cwd: folder, stdio: 'ignore' as const };
  execFileSync(join(bin, 'initdb'), ['-D', data, '-A', 'trust', '-U', USER, '-E', 'UTF8', '--locale=C'], quiet);
  const port = await freePort();
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: folder,
    fsync: 'on',
    synchronous_commit: 'on',
    full_page_writes: 'on',
    max_wal_size: '4GB',
    shared_buffers: `${SHARED_BUFFERS_MB}MB`,
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(join(bin, 'postgres'), ['-D', data, '-p', `${port}`, ...options], quiet);
  const gone = new Promise<void>((resolve) => server.once('exit', () => resolve()));
  const kill = () => server.kill('SIGKILL');
  process.once('exit', kill);
  const urlOf = (name: string) => `postgres://${USER}@127.0.0.1:${port}/${name}`;
  await waitUntilReady(urlOf('postgres'), gone);

  const query = async (sql: string): Promise<Record<string, string>[]> => {
    const client = new pg.Client(urlOf('postgres'));
    await client.connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  };
  if (!short) await recycleWalSegments(WAL_SEGMENTS, query);
  if (!short) await fillSharedBuffers(query);
  return {
    url: urlOf('postgres'),
    async describe() {
      const shown = ['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method'];
      const rows = await query(
        `SELECT name, setting FROM pg_settings WHERE name IN (${shown.map((name) => `'${name}'`)})`,
      );
      const settingOf = (name: string) => rows.find((row) => row.name === name)?.setting;
      const [version, ...others] = shown;
      return `PostgreSQL ${settingOf(version as string)}: ${others.map((name) => `${name}=${settingOf(name)}`).join(' ')}`;
    },
    async database(name) {
      await query(`CREATE DATABASE "${name}"`);
      return urlOf(name);
    },
    cpu: () => cpuOfTree(server.pid ?? 0),
    cpuOfDatabase: (name) => cpuOfSessions(server.pid ?? 0, { user: USER, database: name }),
    async stop() {
      process.off('exit', kill);
      server.kill('SIGINT'); // Fast shutdown.
      await gone;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Creates WAL segments and makes them recyclable, as checkpoints do over time. The server fills a new segment with
 * zeros while all commits wait: 16 MiB, 20–50 ms.
 */
async function recycleWalSegments(segments: number, query: (sql: string) => Promise<unknown>): Promise<void> {
  const one = "select pg_logical_emit_message(false, 'bench', 'a segment is not empty'), pg_switch_wal();";
  // Several statements sent at once are one transaction, which may span segments.
  for (let created = 0; created < segments; created += 10) await query(one.repeat(10));
  await query('checkpoint');
}

/**
 * Uses every page of `shared_buffers` once, as a server in use has done: the kernel assigns and clears the memory of a
 * page when it is first used.
 */
async function fillSharedBuffers(query: (sql: string) => Promise<unknown>): Promise<void> {
  await query('create unlogged table filler (page text not null)');
  await query('alter table filler alter column page set storage plain');
  // One row a page; an `insert`, because bulk loads use few buffers.
  await query(`insert into filler select repeat('x', 8000) from generate_series(1, ${SHARED_BUFFERS_MB * 128})`);
  await query('drop table filler');
}

/** A port that was free at the time of the check. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

/** Debian does not put the server's programs into `PATH`. */
function binaries(): string {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  const candidates = [
    ...versions.map((version) => join(DEBIAN, version, 'bin')),
    ...(process.env.PATH ?? '').split(':'),
  ];
  const found = candidates.find((folder) => existsSync(join(folder, 'initdb')));
  if (found === undefined)
    throw new Error("PostgreSQL's server programs (initdb) are required for a benchmark of durable writes");
  return found;
}

/** PostgreSQL refuses to run as root. */
function postgresUser(): { uid: number; gid: number } {
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres']).toString());
  return { uid: id('-u'), gid: id('-g') };
}

async function waitUntilReady(url: string, gone: Promise<void>): Promise<void> {
  let ended = false;
  void gone.then(() => {
    ended = true;
  });
  const until = performance.now() + 30_000;
  for (;;) {
    const client = new pg.Client(url);
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (ended || performance.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
