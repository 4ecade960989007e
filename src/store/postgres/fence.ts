import type { Uuid } from '../../domain/values.ts';

/** Ownership of shards, which each new connection and each group commit verify in the database. */
export interface Fence {
  readonly node: Uuid;
  /** Epoch that the node registered with; a node that takes over its shards raises it. */
  readonly nodeEpoch: number;
  /**
   * The epoch of all shards, for a node that owns all of them as long as it is active. Null: shards move between nodes,
   * and each group commit names its own.
   */
  readonly allShardsEpoch: number | null;
  /** Server process that holds the active lock: it identifies the server, in case a name resolves to another one. */
  readonly lockPid: number;
  /** Reports that the database rejected this node, because another node is the owner. */
  refused(reason: string): void;
}

/** Epoch that nodes register with; the node that takes over raises it once. */
export const FIRST_NODE_EPOCH = 1;

/** Error message of a fenced statement that fails. */
export const FENCED = 'another node owns the shard';

const refuseIf = (condition: string): string => `case when ${condition} then refuse('${FENCED}') end as fenced`;

/**
 * SQL expression that fails with `FENCED` unless the node owns all shards. The values come from the database. One shard
 * is checked, because all shards of such a node have the same owner.
 */
export const ownsAllShards = (node: Uuid, epoch: number): string =>
  refuseIf(`not exists (select from shards where shard = 0 and owner = '${node}' and epoch = ${epoch})`);

/** The same for the shards in the parameter `$n`, an array of smallint without duplicates. */
export const ownsShards = (node: Uuid, n: number): string =>
  refuseIf(
    `(select count(*) from shards where shard = any($${n}::smallint[]) and owner = '${node}') < cardinality($${n}::smallint[])`,
  );

/** The expression of a fence; `n`: number of the parameter with the shards, if the fence checks them. */
export const fenceExpression = ({ node, allShardsEpoch }: Fence, n: number): string =>
  allShardsEpoch === null ? ownsShards(node, n) : ownsAllShards(node, allShardsEpoch);

/** Records the current session, and deletes ended sessions of the same node. */
export const recordSession = `with ended as (
    delete from node_sessions s where s.node = $1 and s.pid <> pg_backend_pid() and not exists (
      select from pg_stat_activity a where a.pid = s.pid and a.backend_start = s.started_at))
  insert into node_sessions (pid, node, epoch, role, started_at)
    select pid, $1, $2, usename, backend_start from pg_stat_activity where pid = pg_backend_pid()
  on conflict (pid) do update set node = excluded.node, epoch = excluded.epoch, role = excluded.role,
    started_at = excluded.started_at`;

/**
 * Sent after `recordSession` was committed: a takeover that does not see the record raised the epoch before this
 * statement reads it.
 */
export const readFence = `select coalesce((select epoch = $2 from nodes where id = $1), false) as current,
  exists (select from pg_locks where locktype = 'advisory' and pid = $3 and classid = 0 and objid = $4 and objsubid = 1
    and granted and database = (select oid from pg_database where datname = current_database())) as locked`;

/** Key of the active lock; advisory locks are per database, so a server can serve several deployments. */
export const ACTIVE_LOCK = 7_421_000;
