import { Redis } from 'ioredis';

/** Ours among others in one Redis. */
export const PREFIX = 'twinkeep:';

/** A cache that takes longer is of no use. */
const COMMAND_TIMEOUT_MS = 500;
const CONNECT_TIMEOUT_MS = 2_000;
const MAX_RETRY_MS = 1_000;

/** A connection that fails at once while Redis is away, and looks for it for ever. */
export function connectRedis(url: string): Redis {
  const client = new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_TIMEOUT_MS,
    connectTimeout: CONNECT_TIMEOUT_MS,
    keepAlive: 5_000,
    retryStrategy: (times: number) => Math.min(times * 50, MAX_RETRY_MS),
    // A replica that was the primary until now: connect again, to whoever is.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
    connectionName: 'twinkeep',
  });
  client.on('error', () => {});
  return client;
}
