import type pg from 'pg';
import type { Uuid } from '../../domain/values.ts';
import { nodes } from '../postgres/migrations/0013-nodes.ts';

/** Description of a node for other nodes and operators. */
export interface NodeInfo {
  /** Host and port of its HTTP server. */
  address: string;
  /** Version of the program. */
  build: string;
}

/** The only shard so far: it has all tenants. */
export const SHARD = 0;

/**
 * Raises the previous owner's epoch, registers this node and makes it the owner, in one statement and so in one commit.
 * Nodes that own no shard and were fenced more than 30 days ago are deleted; a node without a row is rejected as well.
 */
const takeShard = `with previous as (
    update nodes set epoch = epoch + 1 where id = (select owner from shards where shard = $4) returning id),
  forgotten as (
    delete from nodes where epoch > 1 and started_at < clock_timestamp() - interval '30 days'
      and id not in (select owner from shards)),
  registered as (
    insert into nodes (id, epoch, address, build, started_at) values ($1, 1, $2, $3, clock_timestamp()))
  insert into shards as s (shard, owner, epoch) values ($4, $1, 1)
  on conflict (shard) do update set owner = excluded.owner, epoch = s.epoch + 1
  returning epoch::integer as epoch`;

const isMissing = `select to_regclass('node_sessions') is null as missing`;

/**
 * Claims the shard and returns its epoch as committed. `endUnrecorded` terminates sessions of builds without these
 * tables, before the tables are created: one of those builds may be about to create them.
 */
export async function claimShard(
  client: pg.Client,
  node: Uuid,
  { address, build }: NodeInfo,
  endUnrecorded: () => Promise<void>,
): Promise<number> {
  const { rows } = await client.query<{ missing: boolean }>(isMissing);
  if (rows[0]?.missing) {
    await endUnrecorded();
    await client.query(nodes);
  }
  const taken = await client.query<{ epoch: number }>(takeShard, [node, address, build, SHARD]);
  const epoch = taken.rows[0]?.epoch;
  if (epoch === undefined) throw new Error('claiming the shard returned no epoch');
  return epoch;
}
