import { setImmediate as nextLoop, setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import type { ActiveLock } from '../contract.ts';
import { STORE_NAME } from '../postgres/connect.ts';

/** Of the active process; locks are per database, so a server can serve several deployments. */
const ACTIVE_LOCK = 7_421_000;
const POLL_MS = 250;
const LOOK_MS = 10;
const RECONNECT_MS = 1_000;
const CONNECT_MS = 3_000;
const HEARTBEAT_MS = 1_000;
/** As long as devices wait (`devicePatienceMs`): a server that is silent for a while gives the lock to nobody else. */
const SILENCE_MS = 10_000;

/**
 * When this process is stopped, or its machine is gone without a word, the server ends the session after these, and the
 * lock goes with it: later than this process gives up by itself. Milliseconds and seconds as each setting has them.
 */
const session = `set idle_session_timeout = '15s'; set statement_timeout = '5s'; set tcp_user_timeout = '14s';
  set tcp_keepalives_idle = 6; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 4`;
const tryLock = `select pg_try_advisory_lock(${ACTIVE_LOCK}) as got`;
/** A predecessor's sessions may outlive it, with a statement that would come true behind our back. */
const endOthers = `select count(pg_terminate_backend(pid)) > 0 as got from pg_stat_activity
  where datname = current_database() and usename = current_user and application_name = '${STORE_NAME}'`;
/** False where a pooler in between gave us another session. */
const stillHeld = `select exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
  and classid = 0 and objid = ${ACTIVE_LOCK} and objsubid = 1 and granted) as got`;

/**
 * The session advisory lock of a PostgreSQL database, on a connection of its own: it lives exactly as long as that
 * connection. A standby asks four times a second.
 */
export class AdvisoryLock implements ActiveLock {
  private readonly url: string;
  private readonly silenceMs: number;
  private readonly listeners: (() => void)[] = [];
  private client: pg.Client | null = null;
  private heart: NodeJS.Timeout | null = null;
  private over = false;

  constructor(url: string, silenceMs = SILENCE_MS) {
    this.url = url;
    this.silenceMs = silenceMs;
  }

  /** Waits as long as it takes, through a server that is away too; rejects only when `signal` aborts. */
  async acquire(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const client = await this.connect();
      if (client && (await this.wait(client, signal))) {
        this.hold(client);
        return;
      }
      await end(client);
      await pause(RECONNECT_MS, undefined, { signal });
    }
  }

  onLost(listener: () => void): void {
    this.listeners.push(listener);
  }

  async release(): Promise<void> {
    this.over = true;
    if (this.heart) clearTimeout(this.heart);
    const { client } = this;
    this.client = null;
    await end(client);
  }

  private async connect(): Promise<pg.Client | null> {
    const client = new pg.Client({
      connectionString: this.url,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: this.silenceMs,
      keepAlive: true,
      application_name: 'twinkeep active lock',
    });
    client.on('error', () => {}); // whoever asks next is told
    try {
      await client.connect();
      await client.query(session);
      return client;
    } catch {
      await end(client);
      return null;
    }
  }

  /** False when the connection broke while waiting. */
  private async wait(client: pg.Client, signal: AbortSignal): Promise<boolean> {
    try {
      for (;;) {
        if (await ask(client, tryLock)) {
          while (await ask(client, endOthers)) await pause(LOOK_MS, undefined, { signal });
          return true;
        }
        await pause(POLL_MS, undefined, { signal });
      }
    } catch (error) {
      if (!signal.aborted) return false;
      await end(client);
      throw error;
    }
  }

  private hold(client: pg.Client): void {
    this.client = client;
    client.once('end', () => this.lost());
    const beat = async (): Promise<void> => {
      if (!(await this.alive(client))) this.lost();
      else if (!this.over) this.heart = setTimeout(beat, HEARTBEAT_MS);
    };
    this.heart = setTimeout(beat, HEARTBEAT_MS);
  }

  private async alive(client: pg.Client): Promise<boolean> {
    let answer: boolean | undefined;
    const asked = ask(client, stillHeld).then(
      (got) => {
        answer = got;
      },
      () => {
        answer = false;
      },
    );
    const timer = new AbortController();
    await Promise.race([asked, pause(this.silenceMs, undefined, { signal: timer.signal }).catch(() => {})]);
    timer.abort();
    // After a long pause of this process its timers run before the answer is read that has been there all along.
    for (let turn = 0; turn < 3 && answer === undefined; turn += 1) await nextLoop();
    return answer === true;
  }

  private lost(): void {
    if (this.over) return;
    this.over = true;
    if (this.heart) clearTimeout(this.heart);
    const { client } = this;
    this.client = null;
    void end(client);
    for (const listener of this.listeners) listener();
  }
}

async function ask(client: pg.Client, question: string): Promise<boolean> {
  const { rows } = await client.query<{ got: boolean }>(question);
  return rows[0]?.got === true;
}

const end = async (client: pg.Client | null): Promise<void> => {
  await client?.end().catch(() => {});
};
