import { StoreUnavailable } from '../../../src/store/contract.ts';
import { copyOf, jsonb, text } from './columns.ts';
import type { MemoryDatabase, Tables } from './database.ts';

/** One statement, as `commands.list`. */
export interface StatementCall {
  name: string;
  writes: boolean;
}

/**
 * What lies between a process and the database. `effect` is the whole statement: it takes place in one moment, when it is
 * called, and throws what the database refuses. A simulation waits before it or after it, calls it later or never, and
 * answers what a broken connection would answer (`StoreUnavailable`, or `CommitUnknown` for what writes).
 */
export type StatementTransport = <T>(call: StatementCall, effect: () => T) => Promise<T>;

const direct: StatementTransport = async (_, effect) => effect();

export interface SessionOptions {
  transport?: StatementTransport;
  /** The epoch that the process began with; null is not fenced. */
  epoch?: number | null;
}

/** A process's way to the database. Arguments and answers are copies: changing one later changes nothing here. */
export class Session {
  readonly database: MemoryDatabase;
  readonly #wire: StatementTransport;
  readonly #epoch: number | null;

  constructor(database: MemoryDatabase, { transport = direct, epoch = null }: SessionOptions = {}) {
    this.database = database;
    this.#wire = transport;
    this.#epoch = epoch;
  }

  async read<Args extends unknown[], T>(
    name: string,
    args: [...Args],
    effect: (tables: Tables, ...args: Args) => T,
  ): Promise<T> {
    const given = copyOf(args);
    return this.#wire({ name, writes: false }, () => {
      this.#checkEpoch();
      for (const parameter of given) if (typeof parameter === 'string') text(parameter, 'parameter');
      return copyOf(effect(this.database.tables, ...given));
    });
  }

  async write<Args extends unknown[], T>(
    name: string,
    args: [...Args],
    effect: (tables: Tables, ...args: Args) => T,
  ): Promise<T> {
    const given = copyOf(args);
    return this.#wire({ name, writes: true }, () => {
      this.#checkEpoch();
      for (const parameter of given) checkParameter(parameter);
      return copyOf(this.database.transaction((tables) => effect(tables, ...given)));
    });
  }

  #checkEpoch(): void {
    if (this.#epoch !== null && this.#epoch < this.database.epoch) {
      throw new StoreUnavailable(
        `the session's epoch ${this.#epoch} is over: the database is at ${this.database.epoch}`,
      );
    }
  }
}

/**
 * What a parameter may not hold is refused before anything is looked up: rows and stored answers are sent as JSON, and the
 * members of a record each as a text.
 */
function checkParameter(given: unknown): void {
  if (typeof given === 'string') text(given, 'parameter');
  if (typeof given !== 'object' || given === null) return;
  if (Array.isArray(given) || 'principal' in given) jsonb(given, 'parameter');
  else for (const [name, member] of Object.entries(given)) if (typeof member === 'string') text(member, name);
}
