import type { Database } from './database.ts';
import { SCHEMA_LOCK_TIMEOUT_MS } from './lock-retry.ts';
import { appliedMigrations, applyContracts } from './migrate.ts';
import type { Migration } from './migrations.ts';

/** Contracts that this build knows and that are not applied, because nodes of older builds are alive. */
export class WaitingContracts {
  readonly #database: Database;
  readonly #afterApply: () => Promise<void>;
  #waiting: readonly Migration[];

  /** `afterApply` prepares tables that are new or replaced; it does not reject. */
  constructor(database: Database, waiting: readonly Migration[], afterApply: () => Promise<void> = async () => {}) {
    this.#database = database;
    this.#afterApply = afterApply;
    this.#waiting = waiting;
  }

  get ids(): number[] {
    return this.#waiting.map(({ id }) => id);
  }

  /**
   * Applies those that can be applied now, and returns their ids. Throws if the database refuses one, or if a table is in
   * use for too long; call again later.
   */
  async apply(): Promise<number[]> {
    const before = this.ids;
    const { waiting } = await applyContracts(this.#database, this.#waiting, {
      shared: true,
      lockTimeoutMs: SCHEMA_LOCK_TIMEOUT_MS,
    });
    this.#waiting = waiting;
    const applied = before.filter((id) => !this.ids.includes(id));
    if (applied.length > 0) await this.#afterApply();
    return applied;
  }

  /** Forgets those that another node has applied. */
  async refresh(): Promise<void> {
    const applied = await appliedMigrations(this.#database);
    this.#waiting = this.#waiting.filter(({ id }) => !applied.has(id));
  }
}
