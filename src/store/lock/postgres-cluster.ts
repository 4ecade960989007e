import type { Log } from '../../domain/log.ts';
import { SHARD_COUNT } from '../../domain/shards.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import type {
  Cluster,
  ClusterNode,
  ClusterView,
  DrainResult,
  MembershipState,
  NodeFigures,
  NodesReport,
  ReportedNode,
} from '../contract/cluster.ts';
import { StoreUnavailable } from '../contract.ts';
import { FIRST_NODE_EPOCH } from '../postgres/fence.ts';
import { shardArray } from '../postgres/shard-condition.ts';
import type { AdvisoryLock } from './advisory-lock.ts';
import type { LockSession } from './lock-session.ts';
import { CHANGES_CHANNEL, isNodeLockHeld } from './shared-ownership.ts';
import { endStaleSessions } from './stale-sessions.ts';

/** Serializes changes of owners, so that each reads what the one before has committed. */
const OWNERS_LOCK = 7_421_003;
/** Session lock of the one node that does what must not be done twice. */
const LEADER_LOCK = 7_421_004;
const END_SESSIONS_MS = 2_000;

const nodeColumns = `n.id, n.number, n.address, n.link, n.build, n.state,
    n.schema_level as "schemaLevel", n.data_level as "dataLevel",
    (extract(epoch from n.started_at) * 1000)::float8 as "startedAt", ${isNodeLockHeld('n.number')} as alive`;
const registered = `from nodes n where n.epoch = ${FIRST_NODE_EPOCH} and n.number is not null`;
const reportedNodes = `select ${nodeColumns}, n.figures,
    (extract(epoch from clock_timestamp() - n.renewed_at) * 1000)::float8 as "leaseAgeMs"
  ${registered} order by n.number`;
/** One row for each owner and level. A text is read faster than an array. */
const owners = `select owner, data_level as level, string_agg(shard::text, ',') as shards
  from shards group by owner, data_level`;
/**
 * One row for each node and level of its shards, and for each owner of shards that has left. One prepared statement,
 * because nodes read it several times a second. The locks are not part of the snapshot: they are read as they are at the
 * moment, after the tables. `$1`: this session has the leader's lock; it takes it once, because it would count a second
 * time.
 */
const viewed = `select n.*, s.owner, s.level, s.shards,
    (select case when $1::boolean then true else pg_try_advisory_lock(${LEADER_LOCK}) end) as leader
  from (select ${nodeColumns} ${registered}) n full join (${owners}) s on s.owner = n.id order by n.number`;

/**
 * Commits without waiting for the disk: figures may be lost in a crash of the server, and renewals of the lease wait for
 * this statement.
 */
const publishFigures = `update nodes set figures = $2, renewed_at = clock_timestamp() - $3 * interval '1 millisecond'
  where id = $1 and set_config('synchronous_commit', 'off', true) is not null`;

/** An active node other than `node`: SQL of its id. */
const anotherActive = (node: string): string =>
  `exists (select from nodes o where o.id <> ${node} and o.epoch = ${FIRST_NODE_EPOCH} and o.state = 'active'
    and ${isNodeLockHeld('o.number')})`;

const notify = `select pg_notify('${CHANGES_CHANNEL}', '')`;

/** The nodes that share a database, on the connection of this node's lock. */
export class PostgresCluster implements Cluster {
  readonly #lock: AdvisoryLock;
  readonly #log: Log;
  readonly #listeners: (() => void)[] = [];
  #listening = false;
  /** Session that holds the leader's lock, until it ends. */
  #leading: LockSession | null = null;

  /** The lock is held, with shared ownership. */
  constructor(lock: AdvisoryLock, log: Log) {
    this.#lock = lock;
    this.#log = log;
  }

  get self(): Uuid {
    return this.#lock.node;
  }

  view(): Promise<ClusterView> {
    return this.#run(async (session) => {
      const { rows } = await session.prepared<ViewRow>('view', viewed, [this.#leading === session]);
      if (rows[0]?.leader === true) this.#leading = session;
      return { nodes: nodesOf(rows), ...byShard(rows), leader: this.#leading === session };
    });
  }

  report(): Promise<NodesReport> {
    return this.#run(async (session) => {
      const found = await session.query<ReportedNode>(reportedNodes);
      const shards = await session.query<ShardsRow>(owners);
      return { nodes: found.rows.filter(({ alive }) => alive), ...byShard(shards.rows) };
    });
  }

  drain(node: Uuid): Promise<DrainResult> {
    const id = literal(node);
    return this.#changeState(node, 'draining', `state = 'active' and ${anotherActive(id)}`);
  }

  resume(node: Uuid): Promise<DrainResult> {
    return this.#changeState(node, 'active', `state = 'draining'`);
  }

  publish(figures: NodeFigures, leaseAgeMs: Milliseconds): Promise<void> {
    return this.#run(async (session) => {
      await session.prepared('publish', publishFigures, [this.self, JSON.stringify(figures), leaseAgeMs]);
    });
  }

  announce(state: MembershipState, link: string): Promise<void> {
    return this.#run(async (session) => {
      await session.query('update nodes set state = $2, link = $3 where id = $1', [this.self, state, link]);
      await session.query(notify);
    });
  }

  fence(ids: readonly Uuid[]): Promise<void> {
    return this.#run(async (session) => {
      await session.query(
        `update nodes n set epoch = epoch + 1 where n.id = any($1::uuid[]) and n.epoch = ${FIRST_NODE_EPOCH}
          and not ${isNodeLockHeld('n.number')}`,
        [ids],
      );
      await this.#endSessions(session);
      await session.query(notify);
    });
  }

  /**
   * Another node may have raised the epoch of the previous owner and not ended its sessions yet, so that is done here,
   * for the owners that the shards had before.
   */
  claim(shards: readonly number[]): Promise<void> {
    return this.#run(async (session) => {
      const { rows } = await session.query<{ owner: Uuid }>(
        `select distinct owner from shards s where shard = any($1::integer[])
          and not exists (select from nodes n where n.id = s.owner and n.epoch = ${FIRST_NODE_EPOCH})`,
        [shardArray(shards)],
      );
      await this.#endSessions(session);
      const fenced = rows.map(({ owner }) => literal(owner)).join(',');
      await this.#changeOwners(
        session,
        `insert into shards as s (shard, owner, epoch)
          select shard, ${this.#selfLiteral()}, 1 from unnest('${shardArray(shards)}'::integer[]) as given(shard)
          where ${this.#isCurrent()}
        on conflict (shard) do update set owner = excluded.owner, epoch = s.epoch + 1
          where s.owner = any(array[${fenced}]::uuid[])`,
      );
    });
  }

  handOver(shards: readonly number[], to: Uuid): Promise<void> {
    return this.#run((session) =>
      this.#changeOwners(
        session,
        `update shards set owner = ${literal(to)}, epoch = epoch + 1
        where shard = any('${shardArray(shards)}'::integer[]) and owner = ${this.#selfLiteral()} and ${this.#isCurrent()}`,
      ),
    );
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  #selfLiteral(): string {
    return literal(this.self);
  }

  #isCurrent(): string {
    return `exists (select from nodes where id = ${this.#selfLiteral()} and epoch = ${FIRST_NODE_EPOCH})`;
  }

  /**
   * Requests that arrive at several nodes are serialized, so that two of them never drain the last two active nodes. The
   * state is read afterwards to explain why nothing changed.
   */
  #changeState(node: Uuid, state: MembershipState, condition: string): Promise<DrainResult> {
    const id = literal(node);
    return this.#run(async (client) => {
      await client.query(
        `select pg_advisory_xact_lock(${OWNERS_LOCK});
        update nodes set state = '${state}' where id = ${id} and epoch = ${FIRST_NODE_EPOCH} and ${condition}; ${notify}`,
      );
      const { rows } = await client.query<ClusterNode>(`select ${nodeColumns} ${registered} and n.id = $1`, [node]);
      const [found] = rows.filter(({ alive }) => alive);
      if (found === undefined) return 'not found';
      if (found.state === state) return 'done';
      return found.state === 'active' ? 'last active' : 'wrong state';
    });
  }

  /**
   * One message with several statements is one transaction, and each statement has a snapshot of its own: the change
   * sees every owner that was committed before it got the lock.
   */
  async #changeOwners(session: LockSession, change: string): Promise<void> {
    await session.query(`select pg_advisory_xact_lock(${OWNERS_LOCK}); ${change}; ${notify}`);
  }

  /** Gives up after some time, so that the nodes can be read again; the next attempt continues. */
  #endSessions(session: LockSession): Promise<void> {
    return endStaleSessions(session, {
      ...{ signal: AbortSignal.timeout(END_SESSIONS_MS), log: this.#log },
      reportMs: END_SESSIONS_MS,
    });
  }

  async #run<T>(work: (session: LockSession) => Promise<T>): Promise<T> {
    try {
      return await this.#lock.onLockSession((session) => {
        this.#listen(session);
        return work(session);
      });
    } catch (error) {
      throw error instanceof StoreUnavailable ? error : new StoreUnavailable(`cluster: ${(error as Error).message}`);
    }
  }

  #listen(session: LockSession): void {
    if (this.#listening) return;
    this.#listening = true;
    session.onNotification(() => {
      for (const listener of this.#listeners) listener();
    });
  }
}

/** Shards of one owner and level, separated by commas; null in the row of a node without shards. */
interface ShardsRow {
  shards: string | null;
  owner: Uuid;
  level: number;
}

/** The members of the node are null in a row of shards whose owner is not registered. */
type ViewRow = (ClusterNode | { id: null }) & ShardsRow & { leader: boolean };

function nodesOf(rows: readonly ViewRow[]): ClusterNode[] {
  const found = new Map<Uuid, ClusterNode>();
  for (const { owner: _owner, level: _level, shards: _shards, leader: _leader, ...node } of rows)
    if (node.id !== null) found.set(node.id, node);
  return [...found.values()];
}

function byShard(rows: readonly ShardsRow[]): { owners: (Uuid | null)[]; levels: number[] } {
  const owners: (Uuid | null)[] = Array.from({ length: SHARD_COUNT }, () => null);
  const levels = owners.map(() => 0);
  for (const { shards, owner, level } of rows) {
    for (const shard of shards?.split(',').map(Number) ?? []) {
      owners[shard] = owner;
      levels[shard] = level;
    }
  }
  return { owners, levels };
}

function literal(id: Uuid): string {
  if (!isUuid(id)) throw new Error('not the id of a node');
  return `'${id}'::uuid`;
}
