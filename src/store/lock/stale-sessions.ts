import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import type { Log } from '../../domain/log.ts';
import { STORE_NAME, storeName } from '../postgres/connect.ts';
import { FIRST_NODE_EPOCH } from '../postgres/fence.ts';
import { waitForReplication } from '../postgres/server-sessions.ts';
import type { LockSession } from './lock-session.ts';

const POLL_MS = 10;
const INSUFFICIENT_PRIVILEGE = '42501';

/**
 * Sessions recorded by nodes whose epoch was raised, identified by pid and start time. A role without pg_read_all_stats
 * cannot see the start time of another role's sessions, but sees pid and role.
 */
const recorded = `select a.pid, s.role, s.node from node_sessions s
  join pg_stat_activity a on a.pid = s.pid and a.datname = current_database()
    and (a.backend_start = s.started_at or (a.backend_start is null and a.usename = s.role))
  left join nodes n on n.id = s.node
  where n.epoch is distinct from s.epoch and a.pid <> pg_backend_pid()`;

/**
 * Sessions of builds that do not record them, and sessions that were not recorded yet, by their application name. The
 * name of a node that shares the database includes its id; all others are of a node that had the database to itself.
 */
const unrecorded = (fenced: string): string => `select a.pid, a.usename as role, null as node from pg_stat_activity a
  where a.datname = current_database() and a.usename = current_user and a.pid <> pg_backend_pid()
    and (a.application_name = '${STORE_NAME}' or a.application_name like '${storeName('%')}' and ${fenced})`;

const unrecordedOfFenced = unrecorded(
  `not exists (select from nodes n where n.epoch = ${FIRST_NODE_EPOCH} and a.application_name = '${storeName('')}' || n.id)`,
);

const forgetEnded = `delete from node_sessions s
  where not exists (select from nodes n where n.id = s.node and n.epoch = s.epoch)`;

interface StaleSession {
  pid: number;
  role: string;
  node: string | null;
}

export interface TerminationOptions {
  signal: AbortSignal;
  log: Log;
  /** Milliseconds between two log lines about sessions that cannot be terminated. */
  reportMs: number;
}

/**
 * Resolves when no session of a node whose epoch was raised is left: from then on it cannot write, and what it has
 * committed cannot be lost with this server.
 */
export async function endStaleSessions(session: LockSession, options: TerminationOptions): Promise<void> {
  await endAll(session, recorded, options);
  await endAll(session, unrecordedOfFenced, options);
  await session.query(forgetEnded);
  await session.query(waitForReplication);
}

/** The same for all sessions of other processes, in a database without the tables of nodes. */
export const endUnrecordedSessions = (session: LockSession, options: TerminationOptions): Promise<void> =>
  endAll(session, unrecorded('true'), options);

async function endAll(
  session: LockSession,
  query: string,
  { signal, log, reportMs }: TerminationOptions,
): Promise<void> {
  let reportAt = performance.now();
  for (;;) {
    const { rows } = await session.query<StaleSession>(query);
    if (rows.length === 0) return;
    const refused: StaleSession[] = [];
    for (const stale of rows) if (!(await terminate(session, stale))) refused.push(stale);
    if (refused.length > 0 && performance.now() >= reportAt) {
      log.error(
        { sessions: refused },
        'active lock: not permitted to terminate database sessions of the previous owner; waiting until they end. ' +
          'Grant pg_signal_backend, or terminate them yourself',
      );
      reportAt = performance.now() + reportMs;
    }
    await pause(POLL_MS, undefined, { signal });
  }
}

async function terminate(session: LockSession, { pid }: StaleSession): Promise<boolean> {
  try {
    await session.query('select pg_terminate_backend($1)', [pid]);
    return true;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === INSUFFICIENT_PRIVILEGE) return false;
    throw error;
  }
}
