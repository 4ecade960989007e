import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { type Lease, type MonotonicClock, RenewedLease } from '../../domain/lease.ts';
import type { ActiveLock, RenewalSample } from '../contract/lock.ts';
import { STORE_NAME } from '../postgres/connect.ts';
import { type LockTiming, lockTiming, sessionSettings } from './timing.ts';

/** Of the active process; locks are per database, so a server can serve several deployments. */
const ACTIVE_LOCK = 7_421_000;
const LOOK_MS = 10;
const RECONNECT_MS = 1_000;
const CONNECT_MS = 3_000;

const tryLock = `select pg_try_advisory_lock(${ACTIVE_LOCK}) as got`;
/** A predecessor's sessions may outlive it, with a statement that would come true behind our back. */
const endOthers = `select count(pg_terminate_backend(pid)) > 0 as got from pg_stat_activity
  where datname = current_database() and usename = current_user and application_name = '${STORE_NAME}'`;
/** `held` is false where a pooler in between gave us another session. */
const renewal = `select exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
  and classid = 0 and objid = ${ACTIVE_LOCK} and objsubid = 1 and granted) as held,
  (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;

/**
 * The session advisory lock of a PostgreSQL database, on a connection of its own: it lives exactly as long as that
 * connection. The lease covers what TCP does not report; it ends before the server gives the lock to another process.
 */
export class AdvisoryLock implements ActiveLock {
  readonly #url: string;
  readonly #timing: LockTiming;
  readonly #now: MonotonicClock;
  readonly #lease: RenewedLease;
  readonly #lostListeners: (() => void)[] = [];
  readonly #renewedListeners: ((sample: RenewalSample) => void)[] = [];
  #client: pg.Client | null = null;
  #renewing: NodeJS.Timeout | null = null;
  #watching: NodeJS.Timeout | null = null;
  #over = false;

  constructor(url: string, { timing, now }: { timing?: Partial<LockTiming>; now?: MonotonicClock } = {}) {
    this.#url = url;
    this.#timing = { ...lockTiming, ...timing };
    this.#now = now ?? (() => performance.now());
    this.#lease = new RenewedLease(this.#timing.lease, this.#now, () => this.#lost());
  }

  get lease(): Lease {
    return this.#lease;
  }

  /** Waits as long as it takes, through a server that is away too; rejects only when `signal` aborts. */
  async acquire(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const client = await this.#connect();
      if (client && (await this.#wait(client, signal))) {
        const sentAt = this.#now();
        if (await this.#renew(client)) {
          this.#lease.begin(1, sentAt);
          this.#hold(client);
          return;
        }
      }
      await end(client);
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
    await end(this.#letGo());
  }

  async #connect(): Promise<pg.Client | null> {
    const client = new pg.Client({
      connectionString: this.#url,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: this.#timing.lease,
      keepAlive: true,
      application_name: 'twinkeep active lock',
    });
    client.on('error', () => {}); // reported by the next query
    try {
      await client.connect();
      await client.query(sessionSettings(this.#timing));
      return client;
    } catch {
      await end(client);
      return null;
    }
  }

  /** False when the connection broke while waiting. */
  async #wait(client: pg.Client, signal: AbortSignal): Promise<boolean> {
    try {
      for (;;) {
        if (await ask(client, tryLock)) {
          while (await ask(client, endOthers)) await pause(LOOK_MS, undefined, { signal });
          return true;
        }
        await pause(this.#timing.poll, undefined, { signal });
      }
    } catch (error) {
      if (!signal.aborted) return false;
      await end(client);
      throw error;
    }
  }

  #hold(client: pg.Client): void {
    this.#client = client;
    client.once('end', () => this.#lost());
    const again = async (): Promise<void> => {
      if (!(await this.#renew(client))) this.#lost();
      else if (!this.#over) this.#renewing = setTimeout(again, this.#timing.renew);
    };
    this.#renewing = setTimeout(again, this.#timing.renew);
    // A renewal that is not answered ends the lease by itself.
    this.#watching = setInterval(() => this.#lease.valid(), this.#timing.lease / 40);
  }

  async #renew(client: pg.Client): Promise<boolean> {
    const sentAt = this.#now();
    try {
      const { rows } = await client.query<{ held: boolean; now: number }>(renewal);
      const [row] = rows;
      if (row?.held !== true) return false;
      this.#lease.renewed(sentAt);
      const sample = { sentAt, receivedAt: this.#now(), databaseNow: row.now };
      for (const listener of this.#renewedListeners) listener(sample);
      return true;
    } catch {
      return false;
    }
  }

  #lost(): void {
    if (this.#over) return;
    void end(this.#letGo());
    for (const listener of this.#lostListeners) listener();
  }

  #letGo(): pg.Client | null {
    this.#over = true;
    this.#lease.end();
    if (this.#renewing) clearTimeout(this.#renewing);
    if (this.#watching) clearInterval(this.#watching);
    const client = this.#client;
    this.#client = null;
    return client;
  }
}

async function ask(client: pg.Client, question: string): Promise<boolean> {
  const { rows } = await client.query<{ got: boolean }>(question);
  return rows[0]?.got === true;
}

const end = async (client: pg.Client | null): Promise<void> => {
  await client?.end().catch(() => {});
};
