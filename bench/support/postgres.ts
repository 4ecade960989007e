import { execFileSync, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { cpuOfTree } from './cpu.ts';

/** A PostgreSQL cluster of the benchmark's own, durable as a real one: `fsync` and `synchronous_commit` are on. */
export interface Cluster {
  url: string;
  /** What decides whether a commit is durable, as the server itself says it. */
  describe(): Promise<string>;
  /** A fresh database in the cluster; answers its URL. */
  database(name: string): Promise<string>;
  stop(): Promise<void>;
  /** Processor time in microseconds that the server used so far, its sessions that still stand included. */
  cpu(): number;
}

const DEBIAN = '/usr/lib/postgresql';
const USER = 'twinkeep';

/** Of 16 MiB: more than a benchmark writes. */
const WAL_SEGMENTS = 100;

/** Not `short`, it is as one that has been in use: its log goes on in segments that were written before. */
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
    shared_buffers: '256MB',
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(join(bin, 'postgres'), ['-D', data, '-p', `${port}`, ...options], quiet);
  const gone = new Promise<void>((resolve) => server.once('exit', () => resolve()));
  const kill = () => server.kill('SIGKILL');
  process.once('exit', kill);
  const urlOf = (name: string) => `postgres://${USER}@127.0.0.1:${port}/${name}`;
  await waitUntilReady(urlOf('postgres'), gone);

  const ask = async (sql: string): Promise<Record<string, string>[]> => {
    const client = new pg.Client(urlOf('postgres'));
    await client.connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  };
  if (!short) await recycleWalSegments(WAL_SEGMENTS, ask);
  return {
    url: urlOf('postgres'),
    async describe() {
      const shown = ['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method'];
      const rows = await ask(
        `SELECT name, setting FROM pg_settings WHERE name IN (${shown.map((name) => `'${name}'`)})`,
      );
      const settingOf = (name: string) => rows.find((row) => row.name === name)?.setting;
      const [version, ...others] = shown;
      return `PostgreSQL ${settingOf(version as string)}: ${others.map((name) => `${name}=${settingOf(name)}`).join(' ')}`;
    },
    async database(name) {
      await ask(`CREATE DATABASE "${name}"`);
      return urlOf(name);
    },
    cpu: () => cpuOfTree(server.pid ?? 0),
    async stop() {
      process.off('exit', kill);
      server.kill('SIGINT'); // fast shutdown
      await gone;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Begins so many segments of the log and frees them for use again, as checkpoints do in time. The first time a segment is begun, the server
 * fills it with zeros while all commits wait: 16 MiB, 20–50 ms.
 */
async function recycleWalSegments(segments: number, ask: (sql: string) => Promise<unknown>): Promise<void> {
  const one = "select pg_logical_emit_message(false, 'bench', 'a segment is not empty'), pg_switch_wal();";
  // Of several statements sent at once all are one transaction, which may begin segments as well.
  for (let begun = 0; begun < segments; begun += 10) await ask(one.repeat(10));
  await ask('checkpoint');
}

/** A port that was free a moment ago. */
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

/** Debian keeps the server's programs out of `PATH`. */
function binaries(): string {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  const candidates = [
    ...versions.map((version) => join(DEBIAN, version, 'bin')),
    ...(process.env.PATH ?? '').split(':'),
  ];
  const found = candidates.find((folder) => existsSync(join(folder, 'initdb')));
  if (found === undefined) throw new Error("a benchmark of durable writes needs PostgreSQL's server programs (initdb)");
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
