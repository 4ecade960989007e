import { setTimeout as pause } from 'node:timers/promises';
import type { Uuid } from '../../domain/values.ts';
import { ACTIVE_LOCK, FIRST_NODE_EPOCH } from '../postgres/fence.ts';
import type { LockSession } from './lock-session.ts';
import { type BuildLevels, buildLevels, ensureNodeTables } from './node-registration.ts';
import type { OwnershipProtocol } from './ownership-protocol.ts';
import { endStaleSessions, endUnrecordedSessions, type TerminationOptions } from './stale-sessions.ts';

/** First key of the locks of single nodes; the second is the node's number. */
const NODE_LOCK = 7_421_002;
/** Channel on which nodes announce changes of nodes and owners. */
export const CHANGES_CHANNEL = 'twinkeep_nodes';
const RETRY_MS = 100;

/** SQL: the lock of node `n` is held, in session `pid` if it is given. */
export const isNodeLockHeld = (number: string, pid?: string): string =>
  `exists (select from pg_locks l where l.locktype = 'advisory' and l.classid = ${NODE_LOCK}
    and l.objid = ${number}::oid and l.objsubid = 2 and l.granted
    and l.database = (select oid from pg_database where datname = current_database())${pid === undefined ? '' : ` and l.pid = ${pid}`})`;

/** Fences a node that had the database to itself: it cannot be alive while this lock is held. */
const fenceExclusive = `update nodes set epoch = epoch + 1 where epoch = ${FIRST_NODE_EPOCH} and number is null`;

const forgetFenced = `delete from nodes where epoch > ${FIRST_NODE_EPOCH}
  and started_at < clock_timestamp() - interval '30 days' and id not in (select owner from shards)`;

const insertNode = `insert into nodes (id, epoch, address, build, started_at, number, state, schema_level, data_level)
  values ($1, ${FIRST_NODE_EPOCH}, $2, $3, clock_timestamp(), $4, 'joining', $5, $6)`;

/**
 * Several nodes share the database, and each owns a part of the shards. Each holds the active lock in common with the
 * others, which excludes nodes that need the database to themselves, and a lock of its own, by which the others see that
 * it is alive. The node is registered only with that lock held.
 */
export const sharedOwnership: OwnershipProtocol = {
  allShards: false,
  lock: `pg_try_advisory_lock_shared(${ACTIVE_LOCK})`,
  held: `exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
      and classid = 0 and objid = ${ACTIVE_LOCK} and objsubid = 1 and granted)
    and (select ${isNodeLockHeld('n.number', 'pg_backend_pid()')} from nodes n where n.id = $1)`,

  /** Returns the node's number. */
  async register(session: LockSession, node: Uuid, { address, build, levels = buildLevels }, options) {
    await ensureNodeTables(session, () => endUnrecordedSessions(session, options), options);
    const number = await lockNumber(session, options.signal);
    await session.query(fenceExclusive);
    await session.query(forgetFenced);
    await warnOfHigherLevel(session, levels, options);
    await session.query(insertNode, [node, address, build, number, levels.schema, levels.data]);
    // A node that was alone reads the others only now and then.
    await session.query(`notify ${CHANGES_CHANNEL}`);
    await endStaleSessions(session, options);
    await session.query(`listen ${CHANGES_CHANNEL}`);
    return number;
  },

  async leave(session, node) {
    await session.query('update nodes set epoch = epoch + 1 where id = $1', [node]);
    await session.query(`notify ${CHANGES_CHANNEL}`);
  },
};

/** Nodes of lower levels do not become the owners of shards that a node of a higher level has owned. */
async function warnOfHigherLevel(
  session: LockSession,
  { data }: BuildLevels,
  { log }: TerminationOptions,
): Promise<void> {
  const { rows } = await session.query<{ level: number | null }>('select max(data_level) as level from shards');
  const level = rows[0]?.level ?? data;
  if (level >= data) return;
  log.warn(
    { data_level: data, shards_data_level: level },
    'data level raised: old nodes cannot take back the shards that this node gets',
  );
}

/** Takes the lock of a number that no other node uses; numbers repeat after 2³¹ nodes. */
async function lockNumber(session: LockSession, signal: AbortSignal): Promise<number> {
  for (;;) {
    const { rows } = await session.query<{ number: number; got: boolean }>(
      `select number, pg_try_advisory_lock(${NODE_LOCK}, number) as got
        from (select nextval('node_numbers')::integer as number offset 0) as next`,
    );
    if (rows[0]?.got) return rows[0].number;
    await pause(RETRY_MS, undefined, { signal });
  }
}
