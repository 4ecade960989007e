import pg from 'pg';
import { faultOf, isConnectionLost, unavailable } from './faults.ts';

export type Value = string | number | boolean | null;

/** A statement with parameters. A named one is prepared once per connection. */
export interface Statement {
  name?: string;
  text: string;
  values?: readonly Value[];
}

/** Runs a statement on the connection of a transaction. Without values `text` may hold several statements. */
export type Query = <Row extends object>(text: string, values?: readonly Value[]) => Promise<Row[]>;

/** What the store's queries need of a driver. Throws the faults of `contract.ts`. */
export interface Database {
  /** Can be asked again when the connection is lost: `StoreUnavailable`. */
  read<Row extends object>(statement: Statement): Promise<Row[]>;
  /** Each statement is its own transaction. When the connection is lost: `CommitUnknown`. */
  write<Row extends object>(statement: Statement): Promise<Row[]>;
  transaction<T>(run: (query: Query) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const INT8 = 20;

/** Whole numbers of the store stay far under 2⁵³, so `bigint` is read as a number. */
export const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === INT8 ? Number : pg.types.getTypeParser(oid, format as 'text'),
};

/** `{a,b}` as PostgreSQL writes an array of ids: no id needs quotes. */
export const idArray = (ids: readonly string[]): string => `{${ids.join(',')}}`;

/** A `Database` on a pool of connections, which reconnects by itself. */
export class PooledDatabase implements Database {
  private readonly pool: pg.Pool;

  constructor(pool: pg.Pool) {
    this.pool = pool;
    // An idle connection that breaks has left the pool already, and of one in use its query is told.
    pool.on('error', () => {});
    pool.on('connect', (client) => client.on('error', () => {}));
  }

  read<Row extends object>(statement: Statement): Promise<Row[]> {
    return this.run(statement, false);
  }

  write<Row extends object>(statement: Statement): Promise<Row[]> {
    return this.run(statement, true);
  }

  async transaction<T>(run: (query: Query) => Promise<T>): Promise<T> {
    const client = await this.connect();
    let broken = false;
    const query: Query = async <Row extends object>(text: string, values?: readonly Value[]) => {
      const result = await client.query<Row>(text, values && [...values]).catch((error) => {
        throw faultOf(error, false);
      });
      return result.rows;
    };
    try {
      await query('begin');
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
      throw error;
    } finally {
      client.release(broken);
    }
  }

  close(): Promise<void> {
    return this.pool.end();
  }

  private async run<Row extends object>(statement: Statement, writing: boolean): Promise<Row[]> {
    const client = await this.connect();
    let broken = false;
    try {
      // pg takes the values as they are, and does not change the array.
      const result = await client.query<Row>(statement as pg.QueryConfig);
      return result.rows;
    } catch (error) {
      broken = isConnectionLost(error);
      throw faultOf(error, writing);
    } finally {
      client.release(broken);
    }
  }

  private async connect(): Promise<pg.PoolClient> {
    try {
      return await this.pool.connect();
    } catch (error) {
      throw unavailable(error);
    }
  }
}
