import { StoreUnavailable } from '../../../src/store/contract.ts';
import { copyOf, jsonb, text } from './columns.ts';
import type { MemoryDatabase, Tables } from './database.ts';

/** A statement, such as `commands.list`. */
export interface StatementCall {
  name: string;
  writes: boolean;
}

/**
 * The connection between a process and the database. `effect` is the whole statement: it runs atomically when it is
 * called, and throws the database's rejection. A simulation delays it, calls it later or never, and throws the error of
 * a broken connection (`StoreUnavailable`, or `CommitUnknown` for a write).
 */
export type StatementTransport = <T>(call: StatementCall, effect: () => T) => Promise<T>;

const direct: StatementTransport = async (_, effect) => effect();

export interface SessionOptions {
  transport?: StatementTransport;
  /** Epoch that the process started with; null: not fenced. */
  epoch?: number | null;
}

/**
 * A process's connection to the database. Arguments and results are copies: later changes to them have no effect here.
 */
export class Session {
  readonly database: MemoryDatabase;
  readonly #transport: StatementTransport;
  readonly #epoch: number | null;

  constructor(database: MemoryDatabase, { transport = direct, epoch = null }: SessionOptions = {}) {
    this.database = database;
    this.#transport = transport;
    this.#epoch = epoch;
  }

  async read<Args extends unknown[], T>(
    name: string,
    args: [...Args],
    effect: (tables: Tables, ...args: Args) => T,
  ): Promise<T> {
    const copies = copyOf(args);
    return this.#transport({ name, writes: false }, () => {
      this.#checkEpoch();
      for (const parameter of copies) if (typeof parameter === 'string') text(parameter, 'parameter');
      return copyOf(effect(this.database.tables, ...copies));
    });
  }

  async write<Args extends unknown[], T>(
    name: string,
    args: [...Args],
    effect: (tables: Tables, ...args: Args) => T,
  ): Promise<T> {
    const copies = copyOf(args);
    return this.#transport({ name, writes: true }, () => {
      this.#checkEpoch();
      for (const parameter of copies) checkParameter(parameter);
      return copyOf(this.database.transaction((tables) => effect(tables, ...copies)));
    });
  }

  #checkEpoch(): void {
    if (this.#epoch !== null && this.#epoch < this.database.epoch) {
      throw new StoreUnavailable(
        `session epoch ${this.#epoch} is fenced: the database has epoch ${this.database.epoch}`,
      );
    }
  }
}

/**
 * Rejects invalid values before anything is looked up: rows and stored responses are sent as JSON, and the members of a
 * record as separate texts.
 */
function checkParameter(value: unknown): void {
  if (typeof value === 'string') text(value, 'parameter');
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return;
  if (Array.isArray(value) || 'principal' in value) jsonb(value, 'parameter');
  else for (const [name, member] of Object.entries(value)) if (typeof member === 'string') text(member, name);
}
