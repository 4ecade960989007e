import { join } from 'node:path';
import { type Config, listenFault } from '../config.ts';
import type { ActiveLock } from '../store/contract.ts';
import { SocketLock } from '../store/lock/socket-lock.ts';
import { startPglite } from '../store/postgres/pglite/start.ts';
import type { PgliteThread } from '../store/postgres/pglite/thread.ts';
import { checkPorts } from './ports.ts';

/** The embedded database of a process that holds its lock. */
export interface EmbeddedDatabase {
  lock: ActiveLock;
  /** It may still be starting. */
  thread: PgliteThread;
}

/**
 * Starts the embedded database when its lock is held and the ports are free, so that a port in use is reported at once.
 * This module imports little, because the database starts while the other modules of the service are loaded. Throws
 * `OwnedByAnother`, or a `ConfigError` for a port.
 */
export async function startEmbedded(config: Config): Promise<EmbeddedDatabase> {
  const lock = new SocketLock(config.dataDir);
  await lock.acquire(new AbortController().signal);
  try {
    await checkPorts(config);
    return { lock, thread: await startPglite(join(config.dataDir, 'db')) };
  } catch (error) {
    await lock.release();
    throw listenFault(config, error);
  }
}

/** Closes a database that no service has opened. */
export async function closeEmbedded({ lock, thread }: EmbeddedDatabase): Promise<void> {
  await thread.close();
  await lock.release();
}
