import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { ACTIVE_LOCK, type Fence, readFence, recordSession } from './fence.ts';

/** Server process and its start time, because pids are reused. */
interface ServerSession {
  pid: number;
  start: string;
}

const POLL_MS = 5;

/**
 * Waits until everything that other sessions have committed is flushed, and replicated if the server has synchronous
 * standbys. A session that is terminated while its commit waits for a standby leaves the commit visible on this server
 * alone: if a standby was promoted, the commit is lost (PostgreSQL, "Synchronous Replication": a server that has been
 * replaced). A transaction waits only if it writes to the log, so this writes a message, which has no reader.
 */
export const waitForReplication = `select pg_logical_emit_message(true, 'twinkeep', '')`;

/**
 * Server sessions of a pool's connections. A statement whose connection was lost may still take effect as long as its
 * session lives: such a session is terminated, and has ended before any other statement is sent. Its commit is then
 * replicated, so that no later statement of this pool reads what a replaced primary alone has.
 */
export class ServerSessions {
  readonly #ofClient = new WeakMap<pg.ClientBase, ServerSession>();
  readonly #lost: ServerSession[] = [];
  /** Commits of sessions that were lost may be visible on this server alone. */
  #isReplicationPending = false;
  readonly #fence: Fence | null;

  constructor(fence: Fence | null = null) {
    this.#fence = fence;
  }

  /** Called for each new connection of the pool. */
  readonly onConnect = async (client: pg.ClientBase): Promise<void> => {
    const { rows } = await client.query<ServerSession>(
      'select pid, backend_start::text as start from pg_stat_activity where pid = pg_backend_pid()',
    );
    if (rows[0]) this.#ofClient.set(client, rows[0]);
    if (this.#fence !== null) await verifyFence(client, this.#fence);
  };

  /** The connection was lost during a write. */
  markLost(client: pg.ClientBase): void {
    const session = this.#ofClient.get(client);
    if (session) this.#lost.push(session);
  }

  get noneLost(): boolean {
    return this.#lost.length === 0 && !this.#isReplicationPending;
  }

  sizes(): CollectionSizes {
    return { database_sessions_lost: this.#lost.length };
  }

  /** Resolves when all lost sessions have ended, and what they have committed cannot be lost with this server. */
  async terminateLost(client: pg.ClientBase): Promise<void> {
    const lost = [...this.#lost];
    const text = `select pg_terminate_backend(pid) from pg_stat_activity
      join unnest($1::integer[], $2::text[]) as l(pid, start) using (pid) where backend_start::text = l.start`;
    const values = [lost.map(({ pid }) => pid), lost.map(({ start }) => start)];
    this.#isReplicationPending = true;
    while ((await client.query(text, values)).rows.length > 0) await pause(POLL_MS);
    for (const session of lost) {
      const at = this.#lost.indexOf(session);
      if (at >= 0) this.#lost.splice(at, 1);
    }
    try {
      await client.query(waitForReplication);
    } catch (error) {
      // It waits on the server for as long as there is no standby: the next attempt ends it.
      this.markLost(client);
      throw error;
    }
    if (this.#lost.length === 0) this.#isReplicationPending = false;
  }
}

/** Throws, and reports to the fence, if this node is not the owner on the connected server. */
async function verifyFence(client: pg.ClientBase, fence: Fence): Promise<void> {
  const { node, nodeEpoch, lockPid } = fence;
  await client.query(recordSession, [node, nodeEpoch]);
  const { rows } = await client.query<{ current: boolean; locked: boolean }>(readFence, [
    ...[node, nodeEpoch, lockPid, ACTIVE_LOCK],
  ]);
  const [row] = rows;
  if (row?.current && row.locked) return;
  const reason = row?.current ? 'this server does not hold the active lock of this node' : 'the epoch was raised';
  fence.refused(reason);
  throw new Error(`database connection rejected: ${reason}`);
}
