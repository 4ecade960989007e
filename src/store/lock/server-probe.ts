import { setTimeout as pause } from 'node:timers/promises';
import { ACTIVE_LOCK, type Fence, readFence } from '../postgres/fence.ts';
import { sessionConfig } from '../postgres/session-config.ts';
import { LockSession } from './lock-session.ts';

const CONNECT_MS = 2_000;
const PROBE_NAME = 'twinkeep server probe';

/**
 * Connects to the database at intervals and checks whether the server that is reached holds the active lock. After a
 * failover whose old primary continues to run, connections that were open stay with it, and what they commit is lost;
 * a new connection leads to the promoted server. A connection that fails shows nothing: the lease covers that.
 */
export class ServerProbe {
  readonly #url: string;
  readonly #fence: () => Fence;
  readonly #stopping = new AbortController();

  /** `fence`: of the node that holds the lock; its `refused` is called if another server is reached. */
  constructor(url: string, fence: () => Fence, intervalMs: number) {
    this.#url = url;
    this.#fence = fence;
    void this.#run(intervalMs).catch(() => {}); // stopped
  }

  stop(): void {
    this.#stopping.abort();
  }

  async #run(intervalMs: number): Promise<void> {
    const { signal } = this.#stopping;
    for (;;) {
      await pause(intervalMs, undefined, { signal, ref: false });
      if ((await this.#isLockHeld()) === false && !signal.aborted) {
        this.#fence().refused('new connections lead to a server that does not hold the active lock of this node');
        return;
      }
    }
  }

  /** Null if the server did not answer. */
  async #isLockHeld(): Promise<boolean | null> {
    const session = new LockSession(
      sessionConfig(this.#url, {
        connectionTimeoutMillis: CONNECT_MS,
        query_timeout: CONNECT_MS,
        application_name: PROBE_NAME,
      }),
    );
    try {
      await session.connect();
      const { node, nodeEpoch, lockPid } = this.#fence();
      const { rows } = await session.query<{ locked: boolean }>(readFence, [node, nodeEpoch, lockPid, ACTIVE_LOCK]);
      return rows[0]?.locked ?? null;
    } catch {
      return null;
    } finally {
      // Not awaited: the end of a connection to a server that no longer responds may take minutes.
      void session.end();
    }
  }
}
