import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { chownSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { type Server, stopWithParent, waitForExit, waitUntilReady } from './child-server.ts';
import { freePort, postgresFolders, program } from './programs.ts';

/** A PostgreSQL cluster with fsync off: data survives a killed server, but not a power failure. */
export interface PostgresServer extends Server {
  /** Resolves when the server has ended by itself. */
  ended(): Promise<void>;
  /** Ends the server as by a crash of one of its processes: connections break, and its memory is lost. */
  crash(): Promise<void>;
  /** Starts the server again with the same data and port. */
  restart(): Promise<void>;
}

/**
 * With `walFolder` the WAL is stored there, in files of 1 MiB; with `copyOf` the cluster is a promoted copy of that
 * server, with `standbyOf` a standby that follows it until `select pg_promote()`.
 */
interface PostgresOptions {
  walFolder?: string | undefined;
  copyOf?: string | undefined;
  standbyOf?: string | undefined;
  /** In addition to those of tests. */
  settings?: Readonly<Record<string, string>>;
}

/** Null if PostgreSQL is not installed. */
export async function startPostgres({
  walFolder,
  copyOf,
  standbyOf,
  settings: more = {},
}: PostgresOptions = {}): Promise<PostgresServer | null> {
  const original = copyOf ?? standbyOf;
  const folders = postgresFolders();
  const createProgram = program(original === undefined ? 'initdb' : 'pg_basebackup', folders);
  const postgres = program('postgres', folders);
  if (!createProgram || !postgres) return null;
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-pg-'));
  const data = join(folder, 'data');
  // PostgreSQL does not run as root: then it runs as its own user.
  const user = process.getuid?.() === 0 ? postgresUser() : {};
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
  const options = { ...user, cwd: folder, env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' } };
  const walArgs = walFolder === undefined ? [] : ['-X', walFolder, '--wal-segsize=1'];
  const createArgs =
    original === undefined
      ? ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync', '-E', 'UTF8', ...walArgs]
      : ['-D', data, '-d', original, '-c', 'fast', '--no-sync', ...(standbyOf === undefined ? [] : ['-R'])];
  await promisify(execFile)(createProgram, createArgs, options);
  const port = await freePort();
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    max_connections: 200,
    shared_buffers: '64MB',
    logging_collector: 'off',
    // Databases live for seconds, and there are hundreds: autovacuum would start two processes per second.
    autovacuum: 'off',
    ...(walFolder !== undefined && { min_wal_size: '2MB', max_wal_size: '4MB' }),
    ...more,
  };
  const settingArgs = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const url = `postgres://postgres@127.0.0.1:${port}`;
  let child: ChildProcess;
  let stop: () => Promise<void>;
  const start = async (): Promise<void> => {
    child = spawn(postgres, ['-D', data, ...settingArgs], { ...options, stdio: 'ignore' });
    stop = stopWithParent(child, 'SIGINT', folder);
    await waitUntilReady(() => answers(`${url}/postgres`), child, 'PostgreSQL').catch(async (error) => {
      await stop();
      throw error;
    });
  };
  await start();
  const ended = (): Promise<void> => waitForExit(child);
  return {
    ...{ url, ended },
    stop: () => stop(),
    async crash() {
      child.kill('SIGQUIT');
      await ended();
    },
    restart: start,
  };
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
