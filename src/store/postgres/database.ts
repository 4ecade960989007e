import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import { isUuid } from '../../domain/uuid.ts';
import { StoreUnavailable } from '../contract.ts';
import { faultOf, isConnectionLost, lacksResource, TenantRoleRefused, unavailable } from './faults.ts';
import { PreparedStatements } from './prepared-statements.ts';
import type { ServerSessions } from './server-sessions.ts';
import { TenantQueries, type TenantScope } from './tenant-query.ts';

/** A buffer is in the binary format of its type. */
export type SqlValue = string | number | boolean | null | Buffer;

/** A statement with parameters. A named statement is prepared once per connection. */
export interface Statement {
  name?: string;
  text: string;
  values?: readonly SqlValue[];
  /** Not retried: the caller has its own retry policy. */
  noRetry?: true;
  /** It reads and writes rows of this tenant alone; `setTenantRole` makes the database ensure it. */
  scope?: TenantScope;
}

/** Runs a statement in a transaction. Without values `text` may contain several statements. */
export type Query = <Row extends object>(text: string, values?: readonly SqlValue[]) => Promise<Row[]>;

/**
 * The store's interface to a driver. Throws the faults of `contract.ts`. Operations that certainly had no effect are
 * retried for two seconds first, so that callers do not notice a short interruption of the server.
 */
export interface Database extends SizeReporter {
  /** Can be repeated after a connection loss: `StoreUnavailable`. */
  read<Row extends object>(statement: Statement): Promise<Row[]>;
  /** Each statement is its own transaction. After a connection loss during the statement: `CommitUnknown`. */
  write<Row extends object>(statement: Statement): Promise<Row[]>;
  /** No time limit except the session's `statement_timeout`, which `run` can change. */
  transaction<T>(run: (query: Query) => Promise<T>): Promise<T>;
  /** Each statement is its own transaction, in one session without time limits, which is closed afterwards. */
  session<T>(run: (query: Query) => Promise<T>): Promise<T>;
  /** PGlite: one session, and no background processes. */
  readonly embedded: boolean;
  /** Number of answered statements, for checks whether the database still answers. */
  readonly answeredStatements: number;
  /** Number of statements prepared on its connections. */
  readonly preparedStatements: number;
  /** Discards the plans of all prepared statements, because the tables have grown. */
  discardPlans(): void;
  /**
   * From now on statements with a `scope` run as this role, which row-level security limits to the rows of a tenant.
   * `onRefused` is called when the server refuses the role or one of its privileges.
   */
  setTenantRole(role: string, onRefused?: (error: StoreUnavailable) => void): void;
  /** From now on `report` is called when the server lacks a resource for a statement, such as disk space. */
  setResourceReporter(report: (error: Error) => void): void;
  close(): Promise<void>;
}

const INT8 = 20;
const RETRY_WINDOW_MS = 2_000;
const RETRY: BackoffLimits = { firstMs: 20, maxMs: 250 };
/** Longest timer of Node.js. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;

/** Integers in the store are far below 2⁵³, so `bigint` is read as a number. */
export const typeParsers: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === INT8 ? Number : pg.types.getTypeParser(oid, format as 'text'),
};

/** Array literal of ids, `{a,b}`. Invalid UUIDs match no row and are left out, so that they do not fail the query. */
export const idArray = (ids: readonly string[]): string => `{${ids.filter(isUuid).join(',')}}`;

/** A `Database` on a pool of connections, which reconnects by itself. */
export class PooledDatabase implements Database {
  readonly embedded: boolean;
  answeredStatements = 0;
  readonly #pool: pg.Pool;
  readonly #sessions: ServerSessions | null;
  readonly #afterClose: () => Promise<void>;
  readonly #statements = new PreparedStatements();
  #tenantQueries: TenantQueries | null = null;
  #onRoleRefused: (error: StoreUnavailable) => void = () => {};
  #onResourceLack: (error: Error) => void = () => {};
  #closed = false;

  /**
   * With a server, `sessions` tracks its sessions; with an embedded database, `thread` is closed after the connection.
   */
  constructor(pool: pg.Pool, backend: { sessions: ServerSessions } | { thread: { close(): Promise<void> } }) {
    this.#pool = pool;
    this.embedded = 'thread' in backend;
    this.#sessions = 'sessions' in backend ? backend.sessions : null;
    this.#afterClose = async () => ('thread' in backend ? backend.thread.close() : undefined);
    // The pool removes idle connections that break; a connection in use reports the error to its query.
    pool.on('error', () => {});
    pool.on('connect', (client) => {
      client.on('error', () => {});
      this.#statements.connected(client);
    });
    pool.on('remove', (client) => this.#statements.removed(client));
  }

  get preparedStatements(): number {
    return this.#statements.count;
  }

  sizes(): CollectionSizes {
    return { ...this.#statements.sizes(), ...this.#sessions?.sizes() };
  }

  discardPlans(): void {
    this.#statements.discardPlans();
  }

  setTenantRole(role: string, onRefused: (error: StoreUnavailable) => void = () => {}): void {
    this.#onRoleRefused = onRefused;
    this.#tenantQueries = new TenantQueries(role, (client, name) => this.#statements.add(client, name));
  }

  setResourceReporter(report: (error: Error) => void): void {
    this.#onResourceLack = report;
  }

  read<Row extends object>(statement: Statement): Promise<Row[]> {
    return this.#withRetry(statement, async () => this.#run(await this.#connect(), statement, false));
  }

  async write<Row extends object>(statement: Statement): Promise<Row[]> {
    return this.#run(await this.#withRetry(statement, () => this.#connect()), statement, true);
  }

  async transaction<T>(run: (query: Query) => Promise<T>): Promise<T> {
    const client = await this.#begin('begin');
    let broken = false;
    const query = untimedQuery(client);
    try {
      const value = await run(query);
      await client.query('commit').catch((error) => {
        throw faultOf(error, true);
      });
      return value;
    } catch (error) {
      broken = await client.query('rollback').then(
        () => false,
        () => true,
      );
      if (broken) this.#sessions?.markLost(client);
      throw error;
    } finally {
      client.release(broken);
    }
  }

  async session<T>(run: (query: Query) => Promise<T>): Promise<T> {
    const client = await this.#begin('set statement_timeout = 0');
    const query = untimedQuery(client);
    try {
      return await run(query);
    } catch (error) {
      // The server may still run a statement.
      this.#sessions?.markLost(client);
      throw error;
    } finally {
      client.release(true);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#pool.end();
    await this.#afterClose();
  }

  async #withRetry<T>({ noRetry }: Statement, attempt: () => Promise<T>): Promise<T> {
    const until = performance.now() + RETRY_WINDOW_MS;
    for (let failures = 1; ; failures++) {
      try {
        return await attempt();
      } catch (error) {
        const wait = backoffDelay(failures, RETRY);
        const late = noRetry || this.#closed || performance.now() + wait > until;
        if (late || !(error instanceof StoreUnavailable) || error instanceof TenantRoleRefused) throw error;
        await pause(wait);
      }
    }
  }

  async #run<Row extends object>(client: pg.PoolClient, statement: Statement, writing: boolean): Promise<Row[]> {
    let broken = false;
    try {
      // pg does not change the array of values, so no copy is needed.
      const config = this.#statements.admit(client, statement) as pg.QueryConfig;
      const { scope } = statement;
      const result =
        scope === undefined || this.#tenantQueries === null
          ? await client.query<Row>(config)
          : await this.#tenantQueries.query<Row>(client, config, scope);
      this.answeredStatements += 1;
      return result.rows;
    } catch (error) {
      if (error instanceof TenantRoleRefused) {
        this.#onRoleRefused(error);
        throw error;
      }
      broken = isConnectionLost(error);
      if (broken && writing) this.#sessions?.markLost(client);
      const fault = faultOf(error, writing);
      if (lacksResource(error)) this.#onResourceLack(fault);
      throw fault;
    } finally {
      client.release(broken);
    }
  }

  /**
   * A connection on which `text` was executed, before statements without a time limit. `text` has the limit of other
   * statements, which finds a connection that does not answer.
   */
  async #begin(text: string): Promise<pg.PoolClient> {
    const client = await this.#connect();
    try {
      await client.query(text);
      return client;
    } catch (error) {
      client.release(true);
      throw faultOf(error, false);
    }
  }

  async #connect(): Promise<pg.PoolClient> {
    let client: pg.PoolClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      throw unavailable(error);
    }
    try {
      if (this.#sessions?.noneLost === false) await this.#sessions.terminateLost(client);
      await this.#statements.refresh(client);
      return client;
    } catch (error) {
      client.release(true);
      throw unavailable(error);
    }
  }
}

/** Waits for the answers of the client's statements for any time. */
const untimedQuery =
  (client: pg.PoolClient): Query =>
  async <Row extends object>(text: string, values?: readonly SqlValue[]) => {
    const config = { text, query_timeout: NO_TIMEOUT_MS, ...(values && { values: [...values] }) };
    const result = await client.query<Row>(config).catch((error) => {
      throw faultOf(error, false);
    });
    return result.rows;
  };
