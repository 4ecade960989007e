import type { Uuid } from '../../domain/values.ts';

/** The ownership that a new connection and each group commit verify in the database. */
export interface Fence {
  readonly node: Uuid;
  /** The epoch that the node registered with; whoever takes its shards raises it. */
  readonly nodeEpoch: number;
  readonly shard: number;
  readonly shardEpoch: number;
  /** The server process that holds the active lock: the same server must have it, not one that took the other's name. */
  readonly lockPid: number;
  /** Reports that the database refused this node: another one is the owner. */
  refused(reason: string): void;
}

/** Message of the error that a fenced statement fails with. */
export const FENCED = 'another node owns the shard';

/** An expression that fails with `FENCED` unless the node owns its shard. Both values come from the database. */
export const ownsShard = ({ shard, node, shardEpoch }: Fence): string =>
  `case when not exists (select from shards where shard = ${shard} and owner = '${node}' and epoch = ${shardEpoch})
    then refuse('${FENCED}') end as fenced`;

/** Records the session that runs it, and forgets those of the same node that ended. */
export const recordSession = `with ended as (
    delete from node_sessions s where s.node = $1 and s.pid <> pg_backend_pid() and not exists (
      select from pg_stat_activity a where a.pid = s.pid and a.backend_start = s.started_at))
  insert into node_sessions (pid, node, epoch, role, started_at)
    select pid, $1, $2, usename, backend_start from pg_stat_activity where pid = pg_backend_pid()
  on conflict (pid) do update set node = excluded.node, epoch = excluded.epoch, role = excluded.role,
    started_at = excluded.started_at`;

/** Sent after `recordSession` was committed: a takeover that does not see the record has raised the epoch before this reads it. */
export const readFence = `select coalesce((select epoch = $2 from nodes where id = $1), false) as current,
  exists (select from pg_locks where locktype = 'advisory' and pid = $3 and classid = 0 and objid = $4 and objsubid = 1
    and granted and database = (select oid from pg_database where datname = current_database())) as locked`;

/** Key of the active process's advisory lock; locks are per database, so a server can serve several deployments. */
export const ACTIVE_LOCK = 7_421_000;
