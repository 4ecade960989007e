import type { ActorRef } from '../../machines/outputs.ts';
import { type BatchCommit, DataRefused, StoreUnavailable } from '../contract.ts';
import { batchInput } from './commit-input.ts';
import { ATOMIC_CONFLICT, type BatchStatement, batchStatements, sectionsOf } from './commit-statement.ts';
import type { Database, Statement } from './database.ts';
import { FENCED, type Fence } from './fence.ts';

/*
 * A turn is one statement: one round trip and one transaction. Actors are updated where the version read is still the
 * row's, or inserted. What joins an updated actor is taken from what its UPDATE answers, so that the loser of a version
 * conflict leaves nothing behind. Where an actor that is to be inserted exists, the statement fails as a whole, and the turn
 * is sent again with one that takes from its INSERT too what was kept.
 */

/** How many actors were kept, and, where that is not all, which. */
interface Answer {
  kept: number;
  names: string[] | null;
}

/** Commits turns on a database. */
export class Committer {
  private readonly database: Database;
  private readonly fence: Fence | null;
  private readonly statements: readonly { statement: BatchStatement; text: string; contested: string | null }[];
  private inserted = 0;

  /** Of `statements` the first that covers a turn is used; the last must cover all. */
  constructor(database: Database, fence: Fence | null = null, statements = batchStatements) {
    this.database = database;
    this.fence = fence;
    this.statements = statements.map((statement) => ({
      statement,
      text: statement.text(fence, 'fails'),
      contested: statement.creates ? statement.text(fence, 'left out') : null,
    }));
  }

  async commit(turn: BatchCommit): Promise<{ lost: ActorRef[] }> {
    if (turn.actors.length === 0 && turn.delivered.length === 0) return { lost: [] };
    const input = batchInput(turn);
    const needed = sectionsOf(input);
    const found = this.statements.find(({ statement }) => statement.covers(needed));
    if (!found) throw new Error(`no statement has the sections ${needed.join(', ')}`);
    const { statement, text, contested } = found;
    const values = statement.values(input, turn.actors.length);
    const creates = turn.actors.some(({ readVersion }) => readVersion === 0);
    const row = await this.write({ name: statement.name, text, values, noRetry: true }).catch((error) => {
      // If the duplicate is a new actor, this keeps the others. It is too rare for a prepared statement.
      const again =
        error instanceof DataRefused && error.sqlState === UNIQUE_VIOLATION && creates && contested !== null;
      if (!again) throw error;
      return this.write({ text: contested, values, noRetry: true });
    });
    if (row === ATOMIC_CONFLICT) return { lost: turn.actors.map(({ ref }) => ref) };
    this.count(turn);
    if (!row?.names) return { lost: [] };
    const kept = new Set(row.names);
    return { lost: turn.actors.map(({ ref }) => ref).filter(({ kind, id }) => !kept.has(`${kind}:${id}`)) };
  }

  private async write(statement: Statement): Promise<Answer | typeof ATOMIC_CONFLICT | undefined> {
    try {
      return (await this.database.write<Answer>(statement))[0];
    } catch (error) {
      if (!(error instanceof DataRefused)) throw error;
      if (error.message === ATOMIC_CONFLICT) return ATOMIC_CONFLICT;
      if (error.message !== FENCED) throw error;
      this.fence?.refused(FENCED);
      throw new StoreUnavailable(FENCED);
    }
  }

  /** With every tenfold of new actors all plans are made again: one made for empty tables reads full ones as a whole. */
  private count(turn: BatchCommit): void {
    const before = magnitude(this.inserted);
    for (const { readVersion } of turn.actors) if (readVersion === 0) this.inserted += 1;
    if (magnitude(this.inserted) > before) this.database.discardPlans();
  }
}

/** SQLSTATE. */
const UNIQUE_VIOLATION = '23505';

const magnitude = (count: number): number => Math.trunc(Math.log10(count + 1));
