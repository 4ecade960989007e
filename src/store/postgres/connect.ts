import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { type Database, PooledDatabase, typeParsers } from './database.ts';
import type { Fence } from './fence.ts';
import { PgliteThread } from './pglite/thread.ts';
import { ServerSessions } from './server-sessions.ts';
import { SESSION_SETTINGS, sessionConfig } from './session-config.ts';

/** What the store's sessions are called in the server's lists. */
export const STORE_NAME = 'twinkeep';
/** Two turns in flight, and the rest for what callers ask meanwhile. */
const CONNECTIONS = 8;
const CONNECT_TIMEOUT_MS = 2_000;
const STATEMENT_TIMEOUT_MS = 8_000;
/** A session's caches of the catalog and of plans grow as long as it lives; a new connection starts with none. */
const LIFETIME_S = 600;
/** As long as a device's message waits (`deviceTimeoutMs`); only for a server that says nothing any more. */
const QUERY_TIMEOUT_MS = 10_000;

/** Nothing is connected yet. Each connection is replaced after `lifetimeS` seconds, and each new one is checked by `fence`. */
export function connectPostgres(
  url: string,
  { lifetimeS = LIFETIME_S, fence = null }: { lifetimeS?: number; fence?: Fence | null } = {},
): Database {
  const sessions = new ServerSessions(fence);
  const config = sessionConfig(url, {
    statement_timeout: STATEMENT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
    application_name: STORE_NAME,
    types: typeParsers,
  });
  return new PooledDatabase(
    new pg.Pool({
      ...config,
      max: CONNECTIONS,
      idleTimeoutMillis: 60_000,
      maxLifetimeSeconds: lifetimeS,
      onConnect: sessions.onConnect,
    }),
    { sessions },
  );
}

/** PGlite's files in `dataDir`, or `memory://`. */
export async function connectPglite(dataDir: string): Promise<Database> {
  if (!dataDir.startsWith('memory:') && !existsSync(join(dataDir, 'PG_VERSION'))) await initialise(dataDir);
  const thread = new PgliteThread(dataDir);
  await thread.ready();
  return connectThread(thread);
}

/** Under another name first: a first start that is cut off leaves no half of a database behind. */
async function initialise(dataDir: string): Promise<void> {
  const making = `${dataDir}.making`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { recursive: true, mode: 0o700 });
  const thread = new PgliteThread(making);
  await thread.ready();
  await thread.close();
  renameSync(making, dataDir);
}

/** The database on a thread that may still be starting; closing it closes the thread. */
export function connectThread(thread: PgliteThread): Database {
  const pool = new pg.Pool({
    stream: () => thread.connect(),
    user: 'postgres',
    database: 'postgres',
    max: 1,
    idleTimeoutMillis: 0,
    types: typeParsers,
    // The session outlives the connection: what an earlier one left open or prepared is in the way.
    onConnect: async (client) => {
      await client.query('rollback');
      await client.query('discard all');
      for (const setting of SESSION_SETTINGS) {
        const [name = '', value = ''] = setting.split('=');
        await client.query('select set_config($1, $2, false)', [name, value.replace('\\', '')]);
      }
    },
  });
  return new PooledDatabase(pool, { thread });
}
