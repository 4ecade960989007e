import { SHARD_COUNT } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import { ACTIVE_LOCK } from '../postgres/fence.ts';
import type { LockSession } from './lock-session.ts';
import { ensureNodeTables, FIRST_NODE_EPOCH } from './node-registration.ts';
import type { OwnershipProtocol } from './ownership-protocol.ts';
import { endStaleSessions, endUnrecordedSessions } from './stale-sessions.ts';

/**
 * Raises the epochs of all previous nodes, registers this node and makes it the owner of all shards, in one statement
 * and so in one commit. Nodes that own no shard and were fenced more than 30 days ago are deleted; a node without a row
 * is rejected as well.
 */
const takeAllShards = `with previous as (
    update nodes set epoch = epoch + 1 where epoch = ${FIRST_NODE_EPOCH} returning id),
  forgotten as (
    delete from nodes where epoch > ${FIRST_NODE_EPOCH} and started_at < clock_timestamp() - interval '30 days'
      and id not in (select owner from shards)),
  registered as (
    insert into nodes (id, epoch, address, build, started_at)
    values ($1, ${FIRST_NODE_EPOCH}, $2, $3, clock_timestamp()))
  insert into shards as s (shard, owner, epoch)
    select shard, $1, (select coalesce(max(epoch), 0) + 1 from shards)
    from generate_series(0, ${SHARD_COUNT - 1}) as all_shards(shard)
  on conflict (shard) do update set owner = excluded.owner, epoch = excluded.epoch
  returning epoch::integer as epoch`;

/** One node owns all shards, and others wait for its lock. */
export const exclusiveOwnership: OwnershipProtocol = {
  allShards: true,
  lock: `pg_try_advisory_lock(${ACTIVE_LOCK})`,
  held: `exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
    and classid = 0 and objid = ${ACTIVE_LOCK} and objsubid = 1 and granted)`,

  /** Returns the epoch of the shards as committed. */
  async register(session: LockSession, node: Uuid, { address, build }, options) {
    await ensureNodeTables(session, () => endUnrecordedSessions(session, options));
    const taken = await session.query<{ epoch: number }>(takeAllShards, [node, address, build]);
    const epoch = taken.rows[0]?.epoch;
    if (epoch === undefined) throw new Error('claiming the shards returned no epoch');
    await endStaleSessions(session, options);
    return epoch;
  },

  /** The next node raises the epoch. */
  async leave() {},
};
