import { Redis } from 'ioredis';
import { guardWrites } from '../../domain/guard-writes.ts';
import type { Lease } from '../../domain/lease.ts';

/** Ours among others in one Redis. */
export const PREFIX = 'twinkeep:';

/** A cache that takes longer is of no use. */
const COMMAND_TIMEOUT_MS = 500;
const CONNECT_TIMEOUT_MS = 2_000;
const MAX_RETRY_MS = 1_000;

/**
 * A connection that fails at once while Redis is away, and looks for it for ever. It ends with the lease: a process that is
 * no longer the active one sends no command, not even one that it had queued, and does not connect again.
 */
export function connectRedis(url: string, lease: Lease): Redis {
  const mayWrite = () => lease.valid();
  const client = new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_TIMEOUT_MS,
    connectTimeout: CONNECT_TIMEOUT_MS,
    keepAlive: 5_000,
    retryStrategy: (times: number) => (mayWrite() ? Math.min(times * 50, MAX_RETRY_MS) : null),
    // A replica that was the primary until now: connect again, to whoever is.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
    connectionName: 'twinkeep',
  });
  // Only the handshake (AUTH, CLIENT SETNAME) is written before this event.
  client.on('connect', () => guardWrites(client.stream, mayWrite));
  client.on('error', () => {});
  return client;
}
