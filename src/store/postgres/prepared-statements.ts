import type { ClientBase } from 'pg';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';

/** More than the store has names, so that only names derived from input can reach this limit. */
export const MOST_NAMES = 320;

/** PostgreSQL truncates longer names, so that two of them could be equal. */
const LONGEST_NAME = 63;

interface Prepared {
  names: Set<string>;
  /** Generation of its plans. */
  generation: number;
}

/**
 * Prepared statements on a pool's connections. A server keeps a prepared statement, with its plan, as long as the
 * connection lives: 20 KB to 1.6 MB each. So the number of prepared names is limited; other statements are parsed each
 * time.
 */
export class PreparedStatements {
  readonly #names = new Set<string>();
  readonly #most: number;
  readonly #clients = new Map<ClientBase, Prepared>();
  #generation = 0;

  constructor(most = MOST_NAMES) {
    this.#most = most;
  }

  connected(client: ClientBase): void {
    this.#clients.set(client, { names: new Set(), generation: this.#generation });
  }

  removed(client: ClientBase): void {
    this.#clients.delete(client);
  }

  /** The statement to send on this connection, without its name if it must not be prepared. */
  admit<Statement extends { name?: string; text: string }>(
    client: ClientBase,
    statement: Statement,
  ): Omit<Statement, 'name'> {
    const { name, ...unnamed } = statement;
    if (name === undefined) return statement;
    if (!this.#names.has(name)) {
      if (this.#names.size >= this.#most || name.length > LONGEST_NAME) return unnamed;
      this.#names.add(name);
    }
    this.#clients.get(client)?.names.add(name);
    return statement;
  }

  /** Counts a statement that was prepared in any case. */
  add(client: ClientBase, name: string): void {
    this.#names.add(name);
    this.#clients.get(client)?.names.add(name);
  }

  sizes(): CollectionSizes {
    return { database_connections: this.#clients.size, prepared_names: this.#names.size };
  }

  /** Number of statements prepared on all connections together. */
  get count(): number {
    let count = 0;
    for (const { names } of this.#clients.values()) count += names.size;
    return count;
  }

  /** From now on each connection discards its plans before its next statement. */
  discardPlans(): void {
    this.#generation += 1;
  }

  /** Discards the plans of a connection if `discardPlans` was called since they were made. */
  async refresh(client: ClientBase): Promise<void> {
    const prepared = this.#clients.get(client);
    if (prepared === undefined || prepared.generation === this.#generation) return;
    const generation = this.#generation;
    await client.query('discard plans');
    prepared.generation = generation;
  }
}
