import { createRequire } from 'node:module';
import type { Redis } from 'ioredis';
import type { Lease } from '../../domain/lease.ts';
import { guardWrites } from '../../domain/write-guard.ts';

/** Key prefix, as other services may share the Redis server. */
export const PREFIX = 'twinkeep:';

/** A slower cache is slower than doing without it. */
const COMMAND_TIMEOUT_MS = 500;
const CONNECT_TIMEOUT_MS = 2_000;
const MAX_RETRY_MS = 1_000;

const require = createRequire(import.meta.url);

/**
 * A connection that fails fast while Redis is unavailable, and retries forever. It ends with the lease: a process that
 * is no longer active sends no command, not even a queued one, and does not reconnect.
 */
export function connectRedis(url: string, lease: Lease): Redis {
  const mayWrite = () => lease.valid();
  // Loaded here: services without Redis do not need its hundred modules.
  const { Redis } = require('ioredis') as typeof import('ioredis');
  const client = new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_TIMEOUT_MS,
    connectTimeout: CONNECT_TIMEOUT_MS,
    keepAlive: 5_000,
    retryStrategy: (times: number) => (mayWrite() ? Math.min(times * 50, MAX_RETRY_MS) : null),
    // The server was demoted to a replica: reconnect to the current primary.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
    connectionName: 'twinkeep',
  });
  // Only the handshake (AUTH, CLIENT SETNAME) is written before this event.
  client.on('connect', () => guardWrites(client.stream, mayWrite));
  client.on('error', () => {});
  return client;
}
