import { shardOf } from '../../domain/shards.ts';
import type { ActorRef } from '../../machines/outputs.ts';
import { type ActorCommit, type CommitOptions, DataRefused, StoreUnavailable } from '../contract.ts';
import { sectionParameters } from './commit-input.ts';
import { ATOMIC_CONFLICT, type BatchStatement, batchStatements } from './commit-statement.ts';
import type { Database, Statement } from './database.ts';
import { FENCED, type Fence } from './fence.ts';

/*
 * Group commit in one statement: one round trip and one transaction. Actors are updated if the version read is still
 * the row's, or inserted. Effects of an updated actor are gated by the RETURNING of its UPDATE, so that the loser of a
 * version conflict leaves nothing behind. If an actor to be inserted exists already, the statement fails as a whole,
 * and the batch is sent again with a statement that also gates the effects of new actors by the RETURNING of the
 * INSERT.
 */

/** Number of stored actors and, if some are missing, the names of the stored ones. */
interface Answer {
  stored: number;
  names: string[] | null;
}

/** Group commit: writes batches to a database. */
export class Committer {
  readonly #database: Database;
  readonly #fence: Fence | null;
  readonly #statements: readonly { statement: BatchStatement; text: string; skipText: string | null }[];
  #inserted = 0;

  /** The first of `statements` that covers a batch is used; the last must cover all. */
  constructor(database: Database, fence: Fence | null = null, statements = batchStatements) {
    this.#database = database;
    this.#fence = fence;
    this.#statements = statements.map((statement) => ({
      statement,
      text: statement.text(fence, 'fail'),
      skipText: statement.creates ? statement.text(fence, 'skip') : null,
    }));
  }

  async commit(
    commits: readonly ActorCommit[],
    { delivered = [], atomic = false }: CommitOptions,
  ): Promise<{ lost: ActorRef[] }> {
    if (commits.length === 0 && delivered.length === 0) return { lost: [] };
    const parameters = sectionParameters(commits, delivered);
    const needed = [...parameters.keys()];
    const found = this.#statements.find(({ statement }) => statement.covers(needed));
    if (!found) throw new Error(`no statement covers the sections ${needed.join(', ')}`);
    const { statement, text, skipText } = found;
    const shards = this.#fence?.allShardsEpoch === null ? shardsOf(commits) : null;
    const values = statement.values(parameters, { expected: commits.length, atomic, shards });
    const creates = commits.some(({ readVersion }) => readVersion === 0);
    const row = await this.#write({ name: statement.name, text, values, noRetry: true }).catch((error) => {
      // If a new actor exists already, this stores the others. It is too rare for a prepared statement.
      const retryable =
        error instanceof DataRefused && mayBeDuplicate.includes(error.sqlState) && creates && skipText !== null;
      if (!retryable) throw error;
      return this.#write({ text: skipText, values, noRetry: true });
    });
    if (row === ATOMIC_CONFLICT) return { lost: commits.map(({ ref }) => ref) };
    this.#count(commits);
    if (!row?.names) return { lost: [] };
    const stored = new Set(row.names);
    return { lost: commits.map(({ ref }) => ref).filter(({ kind, id }) => !stored.has(`${kind}:${id}`)) };
  }

  async #write(statement: Statement): Promise<Answer | typeof ATOMIC_CONFLICT | undefined> {
    try {
      return (await this.#database.write<Answer>(statement))[0];
    } catch (error) {
      if (!(error instanceof DataRefused)) throw error;
      if (error.message === ATOMIC_CONFLICT) return ATOMIC_CONFLICT;
      if (error.message !== FENCED) throw error;
      this.#fence?.refused(FENCED);
      throw new StoreUnavailable(FENCED);
    }
  }

  /**
   * Discards all plans with every tenfold of inserted actors: a plan made for an empty table scans a full one
   * completely.
   */
  #count(commits: readonly ActorCommit[]): void {
    const before = magnitude(this.#inserted);
    for (const { readVersion } of commits) if (readVersion === 0) this.#inserted += 1;
    if (magnitude(this.#inserted) > before) this.#database.discardPlans();
  }
}

const shardsOf = (commits: readonly ActorCommit[]): ReadonlySet<number> =>
  new Set(commits.map(({ tenantId }) => shardOf(tenantId)));

/** SQLSTATE: unique_violation, and cardinality_violation if the effects of the duplicate change a row a second time. */
const mayBeDuplicate: readonly string[] = ['23505', '21000'];

const magnitude = (count: number): number => Math.trunc(Math.log10(count + 1));
