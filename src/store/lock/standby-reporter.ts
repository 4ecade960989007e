import type { Log } from '../../domain/log.ts';
import { ACTIVE_LOCK } from '../postgres/fence.ts';
import type { LockSession } from './lock-session.ts';

const UNDEFINED_TABLE = '42P01';

const holderSession = `select l.pid, host(a.client_addr) as client, a.backend_start as connected
  from pg_locks l left join pg_stat_activity a using (pid)
  where l.locktype = 'advisory' and l.classid = 0 and l.objid = ${ACTIVE_LOCK} and l.objsubid = 1 and l.granted
    and l.database = (select oid from pg_database where datname = current_database())`;
const owner = `select n.id as node, n.address, n.build, n.started_at as started, s.epoch::integer as epoch
  from shards s join nodes n on n.id = s.owner where s.shard = 0`;

/** Logs the wait of a standby for the active lock: at the beginning, periodically, and at its end. */
export class StandbyReporter {
  readonly #log: Log;
  readonly #everyMs: number;
  readonly #since = performance.now();
  #nextAt = 0;
  #state: 'held' | 'failed' | null = null;

  constructor(log: Log, everyMs: number) {
    this.#log = log;
    this.#everyMs = everyMs;
  }

  /** Another session holds the lock. */
  async held(session: LockSession): Promise<void> {
    if (!this.#due('held')) return;
    const [holder] = (await session.query<object>(holderSession)).rows;
    this.#log.info(
      { ...this.#waitedFor(), session: holder ?? null, owner: await ownerOf(session) },
      'active lock: waiting; another process holds it',
    );
  }

  /** The database did not answer, or closed the connection. */
  failed(error: unknown): void {
    if (!this.#due('failed')) return;
    this.#log.warn({ ...this.#waitedFor(), err: error }, 'active lock: waiting; database unavailable');
  }

  acquired(epoch: number): void {
    this.#log.info({ epoch, ...(this.#state !== null && this.#waitedFor()) }, 'active lock: acquired');
  }

  #due(state: 'held' | 'failed'): boolean {
    const now = performance.now();
    if (this.#state === state && now < this.#nextAt) return false;
    this.#state = state;
    this.#nextAt = now + this.#everyMs;
    return true;
  }

  #waitedFor(): { waited_s: number } {
    return { waited_s: Math.round((performance.now() - this.#since) / 1_000) };
  }
}

/** Null if no build with these tables has used the database yet. */
async function ownerOf(session: LockSession): Promise<object | null> {
  try {
    return (await session.query<object>(owner)).rows[0] ?? null;
  } catch (error) {
    if ((error as { code?: string }).code === UNDEFINED_TABLE) return null;
    throw error;
  }
}
