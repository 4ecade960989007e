import pg from 'pg';
import type { Uuid } from '../../domain/values.ts';
import { DEVICE_TIMEOUT_MS } from '../contract.ts';
import { type Database, PooledDatabase, typeParsers } from './database.ts';
import type { Fence } from './fence.ts';
import { type EmbeddedOptions, startPglite } from './pglite/start.ts';
import type { PgliteThread } from './pglite/thread.ts';
import { ServerSessions } from './server-sessions.ts';
import { SESSION_SETTINGS, sessionConfig } from './session-config.ts';

/** Application name of the store's sessions, as `pg_stat_activity` shows it. */
export const STORE_NAME = 'twinkeep';
/** The same for a node that shares the database with others. */
export const storeName = (node: Uuid): string => `${STORE_NAME} node ${node}`;
/** Two batches in flight, and the rest for concurrent queries. */
const CONNECTIONS = 8;
const CONNECT_TIMEOUT_MS = 2_000;
const STATEMENT_TIMEOUT_MS = 8_000;
/** A session's catalog and plan caches grow as long as it lives, so connections are replaced. */
const LIFETIME_S = 600;

/** Connects lazily. Each connection is replaced after `lifetimeS` seconds, and each new one is checked by `fence`. */
export function connectPostgres(
  url: string,
  { lifetimeS = LIFETIME_S, fence = null }: { lifetimeS?: number; fence?: Fence | null } = {},
): Database {
  const sessions = new ServerSessions(fence);
  const config = sessionConfig(url, {
    statement_timeout: STATEMENT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: STATEMENT_TIMEOUT_MS,
    // As long as a message of a device waits: it is for a server that has stopped responding.
    query_timeout: DEVICE_TIMEOUT_MS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
    application_name: fence?.allShardsEpoch === null ? storeName(fence.node) : STORE_NAME,
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

/** `dataDir`: PGlite's folder, or `memory://`. Resolves when the database answers. */
export async function connectPglite(dataDir: string, options?: EmbeddedOptions): Promise<Database> {
  const thread = await startPglite(dataDir, options);
  await thread.ready();
  return connectThread(thread);
}

/** Database on a thread that may still be starting; closing the database closes the thread. */
export function connectThread(thread: PgliteThread): Database {
  const pool = new pg.Pool({
    stream: () => thread.connect(),
    user: 'postgres',
    database: 'postgres',
    max: 1,
    idleTimeoutMillis: 0,
    types: typeParsers,
    // The session outlives the connection, so transactions and statements of the previous connection must be discarded.
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
