import { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { Lease } from '../../domain/lease.ts';
import { StoreUnavailable } from '../contract.ts';
import { unavailable } from './faults.ts';
import { SerialQueries } from './serial-queries.ts';
import { sessionConfig } from './session-config.ts';

/** Name of the channel, and of the session that listens to it, as `pg_stat_activity` shows it. */
const CHANNEL = 'twinkeep';
const SESSION_NAME = 'twinkeep notifications';
/** NOTIFY accepts payloads shorter than 8000 bytes. */
export const MAX_PAYLOAD_BYTES = 7_999;
const CONNECT_TIMEOUT_MS = 2_000;
/** Interval at which a statement is sent to detect a dead connection, unless another one was answered since. */
const PING_MS = 1_000;
/** A connection that does not answer for so long is replaced. */
const STATEMENT_TIMEOUT_MS = 2_000;
const RECONNECT: BackoffLimits = { firstMs: 20, maxMs: 1_000 };

interface NotificationHandlers {
  /** Called for each notification, in commit order, also for those of this process. */
  received(payload: string): void;
  /** The connection was lost: notifications until the next connection are lost too. */
  interrupted(): void;
}

/**
 * Sends notifications to all nodes (NOTIFY) and receives theirs (LISTEN) on a dedicated connection, because a connection
 * of the pool is replaced from time to time. Connects again with a back-off until it is closed or the lease ends.
 */
export class Notifications {
  readonly #url: string;
  readonly #lease: Lease;
  readonly #handlers: NotificationHandlers;
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;
  #failures = 0;
  /** The connection that listens, and whether it has answered since the last check. */
  #session: { queries: SerialQueries; lost: AbortController; answered: boolean } | null = null;
  #started = Promise.withResolvers<void>();

  constructor(url: string, lease: Lease, handlers: NotificationHandlers) {
    this.#url = url;
    this.#lease = lease;
    this.#handlers = handlers;
    this.#ended = this.#run();
  }

  /** True while the connection listens and answers. */
  get listening(): boolean {
    return this.#session !== null;
  }

  /**
   * Resolves when the server has accepted the notification; otherwise it may be lost or delivered. Throws a RangeError
   * above `MAX_PAYLOAD_BYTES`, `StoreUnavailable` without a connection that answers.
   */
  async send(payload: string): Promise<void> {
    const bytes = Buffer.byteLength(payload);
    if (bytes > MAX_PAYLOAD_BYTES)
      throw new RangeError(`the notification has ${bytes} bytes, more than NOTIFY accepts`);
    const session = this.#session;
    if (session === null) throw new StoreUnavailable('no connection for notifications');
    try {
      await session.queries.query({ name: 'notify', text: 'select pg_notify($1, $2)', values: [CHANNEL, payload] });
      session.answered = true;
    } catch (error) {
      session.lost.abort();
      throw unavailable(error);
    }
  }

  /** Resolves when it listens for the first time, or after `timeoutMs`. */
  async ready(timeoutMs: number): Promise<void> {
    await Promise.race([this.#started.promise, pause(timeoutMs, undefined, { ref: false })]);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted && this.#lease.valid()) {
      await this.#connect();
      this.#failures += 1;
      const delay = backoffDelay(this.#failures, RECONNECT, 'half');
      await pause(delay, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {});
    }
  }

  /** One connection; resolves when it has ended for any reason. */
  async #connect(): Promise<void> {
    const socket = new Socket();
    const lost = new AbortController();
    const signal = AbortSignal.any([lost.signal, this.#closing.signal]);
    // A connection that does not answer would not close by itself either.
    signal.addEventListener('abort', () => socket.destroy(), { once: true });
    const client = new pg.Client({
      ...sessionConfig(this.#url, {
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        query_timeout: STATEMENT_TIMEOUT_MS,
        keepAlive: true,
        application_name: SESSION_NAME,
      }),
      stream: () => socket,
    });
    const queries = new SerialQueries(client);
    client.on('error', () => {});
    client.on('end', () => lost.abort());
    client.on('notification', ({ payload = '' }) => this.#handlers.received(payload));
    try {
      await client.connect();
      await queries.query({ text: `listen ${CHANNEL}` });
      const session = { queries, lost, answered: true };
      this.#session = session;
      this.#failures = 0;
      this.#started.resolve();
      while (this.#lease.valid()) {
        await pause(PING_MS, undefined, { ref: false, signal });
        if (!session.answered) await queries.query({ text: 'select 1' });
        session.answered = false;
      }
    } catch {
      // Reported by `listening`; the next connection follows.
    } finally {
      lost.abort();
      if (this.#session !== null) {
        this.#session = null;
        this.#handlers.interrupted();
      }
    }
  }
}
