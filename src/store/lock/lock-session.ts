import pg from 'pg';
import { SerialQueries } from '../postgres/serial-queries.ts';

/** A database session that sends one statement at a time, in the order of the calls. */
export class LockSession {
  readonly #client: pg.Client;
  readonly #queries: SerialQueries;

  constructor(config: pg.ClientConfig) {
    this.#client = new pg.Client(config);
    this.#queries = new SerialQueries(this.#client);
    this.#client.on('error', () => {}); // Reported by the next query.
  }

  async connect(): Promise<void> {
    await this.#client.connect();
  }

  /** Without values `text` may contain several statements, which are one transaction. */
  query<Row extends object>(text: string, values: unknown[] = []): Promise<{ rows: Row[] }> {
    return this.#queries.query<Row>({ text, values });
  }

  /** For statements that are repeated all the time: the server parses and plans them once. */
  prepared<Row extends object>(name: string, text: string, values: unknown[]): Promise<{ rows: Row[] }> {
    return this.#queries.query<Row>({ name, text, values });
  }

  /** Calls `listener` for each notification of a channel that the session listens to. */
  onNotification(listener: () => void): void {
    this.#client.on('notification', listener);
  }

  /** Calls `listener` once when the connection has ended. */
  onEnd(listener: () => void): void {
    this.#client.once('end', listener);
  }

  async end(): Promise<void> {
    await this.#client.end().catch(() => {});
  }
}
