import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { chownSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { UsageError } from './errors.ts';

/** A PostgreSQL server of the demo, which ends with it. */
export interface DemoDatabase {
  url: string;
  stop(): Promise<void>;
}

const START_MS = 20_000;
const POLL_MS = 50;
/** Where Debian and its relatives install the programs of each version. */
const VERSIONS_FOLDER = '/usr/lib/postgresql';

/**
 * Starts an installed PostgreSQL on a free port of the loopback address, with its data in a temporary folder. Data survive a
 * killed process of the service, but not a power failure. Throws `UsageError` if PostgreSQL is not installed.
 */
export async function startDemoDatabase(): Promise<DemoDatabase> {
  const [initdb, postgres] = ['initdb', 'postgres'].map(findProgram);
  if (!initdb || !postgres) {
    throw new UsageError(
      'Several processes share a PostgreSQL database: install PostgreSQL, or set DATABASE_URL to an empty database.',
    );
  }
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-demo-database-'));
  // PostgreSQL does not run as root: then it runs as its own user.
  const user = postgresUser();
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  const options = { ...user, cwd: folder };
  await promisify(execFile)(initdb, ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync', '-E', 'UTF8'], options);
  const port = await freePort();
  const settings = { port, listen_addresses: '127.0.0.1', unix_socket_directories: '', fsync: 'off' };
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const child = spawn(postgres, ['-D', data, ...args], { ...options, stdio: 'ignore' });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill('SIGINT');
    await ended;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  await whenReady(child, port).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, stop };
}

/** A program of PostgreSQL: of the newest version that is installed, or the one in the search path. Null if there is none. */
const findProgram = (name: string): string | null =>
  [...installedVersions().map((folder) => join(folder, name)), name].find(
    (program) => spawnSync(program, ['--version']).status === 0,
  ) ?? null;

/** Newest first. */
function installedVersions(): string[] {
  try {
    const versions = readdirSync(VERSIONS_FOLDER).sort((a, b) => Number(b) - Number(a));
    return versions.map((version) => join(VERSIONS_FOLDER, version, 'bin'));
  } catch {
    return [];
  }
}

function postgresUser(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/** Resolves when the server accepts connections. */
async function whenReady(child: ChildProcess, port: number): Promise<void> {
  const isReady = findProgram('pg_isready');
  const until = performance.now() + START_MS;
  while (performance.now() < until) {
    if (child.exitCode !== null) throw new Error(`PostgreSQL ended with ${child.exitCode}`);
    if (isReady === null || (await accepts(isReady, port))) return;
    await pause(POLL_MS);
  }
  throw new Error('PostgreSQL did not start in time');
}

const accepts = (isReady: string, port: number): Promise<boolean> =>
  promisify(execFile)(isReady, ['-q', '-h', '127.0.0.1', '-p', `${port}`]).then(
    () => true,
    () => false,
  );

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}
