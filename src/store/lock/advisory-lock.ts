import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Lease, type MonotonicClock, RenewedLease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActiveLock, RenewalSample } from '../contract/active-lock.ts';
import { StoreUnavailable } from '../contract.ts';
import { type Fence, FIRST_NODE_EPOCH } from '../postgres/fence.ts';
import { SchemaMismatch } from '../postgres/migrate.ts';
import { sessionConfig } from '../postgres/session-config.ts';
import { exclusiveOwnership } from './exclusive-ownership.ts';
import { LockSession } from './lock-session.ts';
import { type LockTiming, lockTiming, sessionSettings } from './lock-timing.ts';
import type { NodeInfo } from './node-registration.ts';
import type { OwnershipProtocol } from './ownership-protocol.ts';
import { ServerProbe } from './server-probe.ts';
import { StandbyReporter } from './standby-reporter.ts';

const RECONNECT_MS = 1_000;
const CONNECT_MS = 3_000;
const LOCK_NAME = 'twinkeep active lock';
/** Checks per lease while no other code checks it. */
const CHECKS_PER_LEASE = 40;

const databaseNow = '(extract(epoch from clock_timestamp()) * 1000)::float8 as now';

type Accepts = (sample: RenewalSample) => boolean;

export interface AdvisoryLockParts {
  log: Log;
  node: NodeInfo;
  timing?: Partial<LockTiming>;
  /** Defaults to `performance.now()`. */
  monotonic?: MonotonicClock;
  /** Exclusive by default. */
  ownership?: OwnershipProtocol;
  /**
   * Why this process must not become active; null if it may. Called before each attempt to take the lock, and repeated if
   * it throws, as the server does not answer then.
   */
  refusal?: ((signal: AbortSignal) => Promise<Error | null>) | undefined;
}

/**
 * The session advisory lock of a PostgreSQL database. It has a dedicated connection and lives exactly as long as that
 * connection. A node that acquires it raises the epoch, terminates the previous owner's sessions, and only then is
 * active. With a shared `ownership`, several nodes hold the lock, and the shards decide who may act. The lease covers
 * failures that TCP does not report; it ends before the server gives the lock to another
 * process.
 */
export class AdvisoryLock implements ActiveLock {
  readonly #url: string;
  readonly #log: Log;
  readonly #info: NodeInfo;
  readonly #timing: LockTiming;
  readonly #now: MonotonicClock;
  readonly #lease: RenewedLease;
  readonly #ownership: OwnershipProtocol;
  readonly #refusal: NonNullable<AdvisoryLockParts['refusal']>;
  readonly #lostListeners: (() => void)[] = [];
  readonly #renewedListeners: ((sample: RenewalSample) => void)[] = [];
  #session: LockSession | null = null;
  /** A new id for each attempt: a failed attempt leaves a registered node behind. */
  #node: Uuid = randomUUID();
  #lockPid = 0;
  #renewTimer: NodeJS.Timeout | null = null;
  #checkTimer: NodeJS.Timeout | null = null;
  #probe: ServerProbe | null = null;
  #ended = false;
  /** The parts have not refused. They are asked once, as they read whole tables. */
  #isAccepted = false;

  constructor(url: string, parts: AdvisoryLockParts) {
    const { log, node, timing, monotonic, ownership = exclusiveOwnership, refusal = async () => null } = parts;
    this.#url = url;
    this.#refusal = refusal;
    this.#log = log;
    this.#info = node;
    this.#timing = { ...lockTiming, ...timing };
    this.#ownership = ownership;
    this.#now = monotonic ?? (() => performance.now());
    this.#lease = new RenewedLease(this.#timing.lease, this.#now, () => this.#lost('lease expired'));
  }

  get lease(): Lease {
    return this.#lease;
  }

  /** Fence that checks connections and group commits of the node that holds the lock. */
  fence(): Fence {
    return {
      node: this.#node,
      nodeEpoch: FIRST_NODE_EPOCH,
      allShardsEpoch: this.#ownership.allShards ? this.#lease.epoch : null,
      lockPid: this.#lockPid,
      refused: (reason) => this.#lost(reason),
    };
  }

  /** The id of this node. A new one for each attempt, so it is final when the lock is held. */
  get node(): Uuid {
    return this.#node;
  }

  /**
   * Runs statements on the lock's connection, between its renewals. They must be short, and no transaction may span two
   * of them. Throws if the lock is not held.
   */
  onLockSession<T>(run: (session: LockSession) => Promise<T>): Promise<T> {
    if (this.#session === null) return Promise.reject(new StoreUnavailable('the active lock is not held'));
    return run(this.#session);
  }

  /**
   * Waits indefinitely, also while the server is unavailable; rejects only when `signal` aborts, with `SchemaMismatch` if
   * this build cannot read the data, or with the refusal of its parts.
   */
  async acquire(signal: AbortSignal, accepts: Accepts = () => true): Promise<void> {
    const reports = new StandbyReporter(this.#log, this.#timing.report);
    for (;;) {
      signal.throwIfAborted();
      const session = (await this.#mayAttempt(signal, reports)) ? await this.#attempt(signal, accepts, reports) : null;
      if (session !== null) {
        reports.acquired(this.#lease.epoch);
        this.#hold(session);
        return;
      }
      await pause(RECONNECT_MS, undefined, { signal });
    }
  }

  onLost(listener: () => void): void {
    this.#lostListeners.push(listener);
  }

  onRenewed(listener: (sample: RenewalSample) => void): void {
    this.#renewedListeners.push(listener);
  }

  async release(): Promise<void> {
    const session = this.#detach();
    // If it fails, the others notice the end of the session.
    if (session !== null) await this.#ownership.leave(session, this.#node).catch(() => {});
    await end(session);
  }

  /** False if the server does not answer; throws the refusal. */
  async #mayAttempt(signal: AbortSignal, reports: StandbyReporter): Promise<boolean> {
    if (this.#isAccepted) return true;
    let refusal: Error | null;
    try {
      refusal = await this.#refusal(signal);
    } catch (error) {
      signal.throwIfAborted();
      reports.failed(error);
      return false;
    }
    if (refusal !== null) throw refusal;
    this.#isAccepted = true;
    return true;
  }

  /** The connection that holds the lock, with the lease started; null if the attempt failed. */
  async #attempt(signal: AbortSignal, accepts: Accepts, reports: StandbyReporter): Promise<LockSession | null> {
    const session = new LockSession(
      sessionConfig(this.#url, {
        connectionTimeoutMillis: CONNECT_MS,
        query_timeout: this.#timing.lease,
        keepAlive: true,
        application_name: LOCK_NAME,
      }),
    );
    try {
      await session.connect();
      await session.query(sessionSettings(this.#timing));
      const sample = await this.#wait(session, signal, reports);
      if (!accepts(sample)) throw new Error('database clock not accepted');
      const epoch = await this.#takeOver(session, signal);
      const sentAt = this.#now();
      if (await this.#renew(session)) {
        this.#lease.begin(epoch, sentAt);
        return session;
      }
    } catch (error) {
      await end(session);
      signal.throwIfAborted();
      if (error instanceof SchemaMismatch) throw error;
      reports.failed(error);
      return null;
    }
    await end(session);
    return null;
  }

  /** Returns the reading of the database's clock that came with the lock. */
  async #wait(session: LockSession, signal: AbortSignal, reports: StandbyReporter): Promise<RenewalSample> {
    for (;;) {
      const sentAt = this.#now();
      const { rows } = await session.query<{ got: boolean; pid: number; now: number }>(
        `select ${this.#ownership.lock} as got, pg_backend_pid() as pid, ${databaseNow}`,
      );
      const [row] = rows;
      this.#lockPid = row?.pid ?? 0;
      if (row?.got) return { sentAt, receivedAt: this.#now(), databaseNow: row.now };
      await reports.held(session);
      await pause(this.#timing.poll, undefined, { signal });
    }
  }

  /** Returns the fencing token of the lease. */
  #takeOver(session: LockSession, signal: AbortSignal): Promise<number> {
    this.#node = randomUUID();
    const options = { signal, log: this.#log, reportMs: this.#timing.report };
    return this.#ownership.register(session, this.#node, this.#info, options);
  }

  #hold(session: LockSession): void {
    this.#session = session;
    session.onEnd(() => this.#lost('connection closed'));
    const renew = async (): Promise<void> => {
      if (!(await this.#renew(session))) this.#lost('renewal failed');
      else if (!this.#ended) this.#renewTimer = setTimeout(renew, this.#timing.renew);
    };
    this.#renewTimer = setTimeout(renew, this.#timing.renew);
    // Detects the end of the lease when a renewal is not answered.
    this.#checkTimer = setInterval(() => this.#lease.valid(), this.#timing.lease / CHECKS_PER_LEASE);
    if (this.#timing.probe > 0) this.#probe = new ServerProbe(this.#url, () => this.fence(), this.#timing.probe);
  }

  async #renew(session: LockSession): Promise<boolean> {
    const sentAt = this.#now();
    try {
      const { rows } = await session.prepared<{ held: boolean; current: boolean; now: number }>(
        'renew',
        `select ${this.#ownership.held} as held,
          coalesce((select epoch = ${FIRST_NODE_EPOCH} from nodes where id = $1), false) as current, ${databaseNow}`,
        [this.#node],
      );
      const [row] = rows;
      if (!row?.held || !row.current) return false;
      this.#lease.renewed(sentAt);
      const sample = { sentAt, receivedAt: this.#now(), databaseNow: row.now };
      for (const listener of this.#renewedListeners) listener(sample);
      return true;
    } catch {
      return false;
    }
  }

  #lost(reason: string): void {
    if (this.#ended) return;
    this.#log.error({ reason, epoch: this.#lease.epoch }, 'active lock: lost');
    void end(this.#detach());
    for (const listener of this.#lostListeners) listener();
  }

  #detach(): LockSession | null {
    this.#ended = true;
    this.#lease.end();
    if (this.#renewTimer) clearTimeout(this.#renewTimer);
    if (this.#checkTimer) clearInterval(this.#checkTimer);
    this.#probe?.stop();
    const session = this.#session;
    this.#session = null;
    return session;
  }
}

const end = async (session: LockSession | null): Promise<void> => {
  await session?.end().catch(() => {});
};
