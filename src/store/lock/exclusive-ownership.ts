import { SHARD_COUNT } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import { ACTIVE_LOCK, FIRST_NODE_EPOCH } from '../postgres/fence.ts';
import { SchemaMismatch } from '../postgres/migrate.ts';
import type { LockSession } from './lock-session.ts';
import { type BuildLevels, buildLevels, ensureNodeTables } from './node-registration.ts';
import type { OwnershipProtocol } from './ownership-protocol.ts';
import { endStaleSessions, endUnrecordedSessions } from './stale-sessions.ts';

/**
 * Raises the epochs of all previous nodes, registers this node and makes it the owner of all shards, in one statement
 * and so in one commit. Nodes that own no shard and were fenced more than 30 days ago are deleted; a node without a row
 * is rejected as well. The shards come from the registered node, so that the trigger of `shards` finds its data level.
 */
const takeAllShards = `with previous as (
    update nodes set epoch = epoch + 1 where epoch = ${FIRST_NODE_EPOCH} returning id),
  forgotten as (
    delete from nodes where epoch > ${FIRST_NODE_EPOCH} and started_at < clock_timestamp() - interval '30 days'
      and id not in (select owner from shards)),
  registered as (
    insert into nodes (id, epoch, address, build, started_at, schema_level, data_level)
    values ($1, ${FIRST_NODE_EPOCH}, $2, $3, clock_timestamp(), $4, $5) returning id)
  insert into shards as s (shard, owner, epoch)
    select shard, registered.id, (select coalesce(max(epoch), 0) + 1 from shards)
    from registered, generate_series(0, ${SHARD_COUNT - 1}) as all_shards(shard)
  on conflict (shard) do update set owner = excluded.owner, epoch = excluded.epoch
  returning epoch::integer as epoch`;

/** One node owns all shards, and others wait for its lock. */
export const exclusiveOwnership: OwnershipProtocol = {
  allShards: true,
  lock: `pg_try_advisory_lock(${ACTIVE_LOCK})`,
  held: `exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
    and classid = 0 and objid = ${ACTIVE_LOCK} and objsubid = 1 and granted)`,

  /** Returns the epoch of the shards as committed. */
  async register(session: LockSession, node: Uuid, { address, build, levels = buildLevels }, options) {
    await ensureNodeTables(session, () => endUnrecordedSessions(session, options), options);
    await checkDataLevel(session, levels);
    const taken = await session.query<{ epoch: number }>(takeAllShards, [
      node,
      address,
      build,
      levels.schema,
      levels.data,
    ]);
    const epoch = taken.rows[0]?.epoch;
    if (epoch === undefined) throw new Error('claiming the shards returned no epoch');
    await endStaleSessions(session, options);
    return epoch;
  },

  /** The next node raises the epoch. */
  async leave() {},
};

/** A node that owns all shards has to read the data of all of them. */
async function checkDataLevel(session: LockSession, { data }: BuildLevels): Promise<void> {
  const { rows } = await session.query<{ level: number | null }>('select max(data_level) as level from shards');
  const level = rows[0]?.level ?? 0;
  if (level <= data) return;
  throw new SchemaMismatch(
    `The database has data of level ${level}, but this program version only reads ${data}: start a newer version.`,
  );
}
