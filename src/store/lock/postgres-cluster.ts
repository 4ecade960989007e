import type { Log } from '../../domain/log.ts';
import { SHARD_COUNT } from '../../domain/shards.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Cluster, ClusterNode, ClusterView, MembershipState } from '../contract/cluster.ts';
import { StoreUnavailable } from '../contract.ts';
import { shardArray } from '../postgres/shard-condition.ts';
import type { AdvisoryLock } from './advisory-lock.ts';
import type { LockSession } from './lock-session.ts';
import { FIRST_NODE_EPOCH } from './node-registration.ts';
import { CHANGES_CHANNEL, isNodeLockHeld } from './shared-ownership.ts';
import { endStaleSessions } from './stale-sessions.ts';

/** Serializes changes of owners, so that each reads what the one before has committed. */
const OWNERS_LOCK = 7_421_003;
/** Session lock of the one node that does what must not be done twice. */
const LEADER_LOCK = 7_421_004;
const REPORT_MS = 30_000;

/** The lock is taken once: a session that has it would count it again. */
const leader = `exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and classid = 0
    and objid = ${LEADER_LOCK} and objsubid = 1 and granted) or pg_try_advisory_lock(${LEADER_LOCK})`;
const nodes = `select n.id, n.number, n.address, n.link, n.build, n.state,
    (extract(epoch from n.started_at) * 1000)::float8 as "startedAt", ${isNodeLockHeld('n.number')} as alive
  from nodes n where n.epoch = ${FIRST_NODE_EPOCH} and n.number is not null order by n.number`;
const owners = 'select shard, owner from shards';

const notify = `select pg_notify('${CHANGES_CHANNEL}', '')`;

/** The nodes that share a database, on the connection of this node's lock. */
export class PostgresCluster implements Cluster {
  readonly #lock: AdvisoryLock;
  readonly #log: Log;
  readonly #listeners: (() => void)[] = [];
  #listening = false;

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
      // One snapshot would not do: the locks are read as they are at the moment.
      const found = await session.query<ClusterNode>(nodes);
      const shards = await session.query<{ shard: number; owner: Uuid }>(owners);
      const leads = await session.query<{ leader: boolean }>(`select ${leader} as leader`);
      const byShard: (Uuid | null)[] = Array.from({ length: SHARD_COUNT }, () => null);
      for (const { shard, owner } of shards.rows) byShard[shard] = owner;
      return { nodes: found.rows, owners: byShard, leader: leads.rows[0]?.leader === true };
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
      await endStaleSessions(session, { signal: new AbortController().signal, log: this.#log, reportMs: REPORT_MS });
      await session.query(notify);
    });
  }

  claim(shards: readonly number[]): Promise<void> {
    return this.#changeOwners(
      `insert into shards as s (shard, owner, epoch)
        select shard, ${this.#selfLiteral()}, 1 from unnest('${shardArray(shards)}'::integer[]) as given(shard)
        where ${this.#isCurrent()}
      on conflict (shard) do update set owner = excluded.owner, epoch = s.epoch + 1
        where not exists (select from nodes n where n.id = s.owner and n.epoch = ${FIRST_NODE_EPOCH})`,
    );
  }

  handOver(shards: readonly number[], to: Uuid): Promise<void> {
    return this.#changeOwners(
      `update shards set owner = ${literal(to)}, epoch = epoch + 1
        where shard = any('${shardArray(shards)}'::integer[]) and owner = ${this.#selfLiteral()} and ${this.#isCurrent()}`,
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
   * One message with several statements is one transaction, and each statement has a snapshot of its own: the change
   * sees every owner that was committed before it got the lock.
   */
  #changeOwners(change: string): Promise<void> {
    return this.#run(async (session) => {
      await session.query(`select pg_advisory_xact_lock(${OWNERS_LOCK}); ${change}; ${notify}`);
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

function literal(id: Uuid): string {
  if (!isUuid(id)) throw new Error('not the id of a node');
  return `'${id}'::uuid`;
}
