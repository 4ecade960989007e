import type pg from 'pg';
import type { Uuid } from '../../domain/values.ts';
import { nodes } from '../postgres/migrations/0013-nodes.ts';

/** The description of a node for other nodes and operators. */
export interface NodeInfo {
  /** Host and port of its HTTP server. */
  address: string;
  /** Version of the program. */
  build: string;
}

/** All tenants are in it, until there is more than one. */
export const SHARD = 0;

/**
 * Raises the previous owner's epoch, registers this node and makes it the owner: one statement, so one commit. Nodes that
 * own nothing and were fenced long ago are forgotten: without a row they are refused all the same.
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
 * The epoch of this node as the owner of the shard, committed. `endUnrecorded` ends sessions of builds that had no such
 * tables, before the tables are made: one of them may be about to make them.
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
  if (epoch === undefined) throw new Error('the shard was not taken');
  return epoch;
}
