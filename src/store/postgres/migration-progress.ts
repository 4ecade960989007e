import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '../../domain/log.ts';
import type { Milliseconds } from '../../domain/values.ts';
import type { Database, Query } from './database.ts';

export interface ProgressTimes {
  /** A migration that takes longer is reported. */
  afterMs: Milliseconds;
  /** Pause between two reports of one that waits. */
  repeatMs: Milliseconds;
}

const TIMES: ProgressTimes = { afterMs: 1_000, repeatMs: 10_000 };

/** A session for which another one waits. Users without privileges see its process id alone. */
interface Blocker {
  pid: number;
  application: string | null;
  /** Age of its transaction in seconds. */
  transaction_s: number | null;
}

const blockersOf = `select coalesce(json_agg(json_build_object('pid', b.pid, 'application', b.application_name,
    'transaction_s', round(extract(epoch from clock_timestamp() - b.xact_start)))), '[]') as blockers
  from pg_stat_activity a cross join unnest(pg_blocking_pids(a.pid)) as p left join pg_stat_activity b on b.pid = p
  where a.pid = $1 and a.wait_event_type = 'Lock' having count(*) > 0`;

/** Logs a migration that takes long: that it runs, what it waits for, repeatedly, and how long it took. */
export class MigrationProgress {
  readonly #database: Database;
  readonly #log: Log | null;
  readonly #fields: object;
  readonly #times: ProgressTimes;
  #pid: number | null = null;
  #reason: string | null = null;

  /** Without a log, nothing is reported. `fields` describe the migration in the log. */
  constructor(database: Database, log: Log | null, fields: object, times: ProgressTimes = TIMES) {
    this.#database = database;
    this.#log = log;
    this.#fields = fields;
    this.#times = times;
  }

  /** From now on the migration runs in this session, whose waits for locks are reported. */
  async runsIn(query: Query): Promise<void> {
    if (this.#log === null || this.#database.embedded) return;
    const [session] = await query<{ pid: number }>('select pg_backend_pid() as pid');
    this.#pid = session?.pid ?? null;
    this.#reason = null;
  }

  /** From now on the migration waits for something else than a lock of its session. */
  waitsFor(reason: string): void {
    this.#reason = reason;
  }

  /** Runs the migration, and reports it while it runs. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const log = this.#log;
    if (log === null) return work();
    const startedAt = performance.now();
    const tookMs = () => Math.round(performance.now() - startedAt);
    const ended = new AbortController();
    const reporting = this.#report(log, tookMs, ended.signal);
    try {
      const outcome = await work();
      const ms = tookMs();
      if (ms >= this.#times.afterMs) log.info({ ...this.#fields, duration_ms: ms }, 'schema: long migration has ended');
      return outcome;
    } finally {
      ended.abort();
      await reporting;
    }
  }

  async #report(log: Log, tookMs: () => Milliseconds, signal: AbortSignal): Promise<void> {
    const { afterMs, repeatMs } = this.#times;
    for (let wait = afterMs; ; wait = repeatMs) {
      await pause(wait, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      if (wait === afterMs) log.info(this.#fields, 'schema: migration is running');
      const waiting = await this.#waiting();
      if (waiting !== null && !signal.aborted)
        log.warn({ ...this.#fields, ...waiting, duration_ms: tookMs() }, 'schema: migration is waiting');
    }
  }

  /** What it waits for now; null if it does not wait, or the database does not answer. */
  async #waiting(): Promise<{ reason: string; blocked_by?: Blocker[] } | null> {
    if (this.#reason !== null) return { reason: this.#reason };
    if (this.#pid === null) return null;
    const statement = { text: blockersOf, values: [this.#pid], noRetry: true } as const;
    const [row] = await this.#database.read<{ blockers: Blocker[] }>(statement).catch(() => []);
    return row === undefined ? null : { reason: 'a lock of another session', blocked_by: row.blockers };
  }
}
