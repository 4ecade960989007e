/** Undo log of the open transaction: an undo step for each change, newest last. */
export class UndoLog {
  #steps: (() => void)[] | null = null;

  note(step: () => void): void {
    this.#steps?.push(step);
  }

  /** Runs `change`; if it throws, all its changes are rolled back. */
  transaction<T>(change: () => T): T {
    if (this.#steps !== null) throw new Error('a transaction is already open');
    const steps: (() => void)[] = [];
    this.#steps = steps;
    try {
      return change();
    } catch (error) {
      this.#steps = null;
      for (const step of steps.reverse()) step();
      throw error;
    } finally {
      this.#steps = null;
    }
  }
}

/**
 * Rows by primary key. A row is replaced, never modified in place, so that a snapshot of the table is a shallow copy.
 */
export class Table<Row> {
  #rows = new Map<string, Row>();
  readonly #undo: UndoLog;
  /** Null until `takeChanged` is first called. */
  #changed: Set<string> | null = null;

  constructor(undo: UndoLog) {
    this.#undo = undo;
  }

  get size(): number {
    return this.#rows.size;
  }

  get(key: string): Row | undefined {
    return this.#rows.get(key);
  }

  has(key: string): boolean {
    return this.#rows.has(key);
  }

  set(key: string, row: Row): this {
    const before = this.#rows.get(key);
    const existed = before !== undefined;
    const noted = this.#noteChange(key);
    this.#undo.note(() => {
      if (existed) this.#rows.set(key, before);
      else this.#rows.delete(key);
      if (noted) this.#changed?.delete(key);
    });
    this.#rows.set(key, row);
    return this;
  }

  delete(key: string): boolean {
    const before = this.#rows.get(key);
    if (before === undefined) return false;
    const noted = this.#noteChange(key);
    this.#undo.note(() => {
      this.#rows.set(key, before);
      if (noted) this.#changed?.delete(key);
    });
    return this.#rows.delete(key);
  }

  clear(): void {
    for (const key of [...this.#rows.keys()]) this.delete(key);
  }

  keys(): MapIterator<string> {
    return this.#rows.keys();
  }

  values(): MapIterator<Row> {
    return this.#rows.values();
  }

  [Symbol.iterator](): MapIterator<[string, Row]> {
    return this.#rows.entries();
  }

  where(matches: (row: Row) => boolean): Row[] {
    const rows: Row[] = [];
    for (const row of this.#rows.values()) if (matches(row)) rows.push(row);
    return rows;
  }

  first(matches: (row: Row) => boolean): Row | undefined {
    for (const row of this.#rows.values()) if (matches(row)) return row;
    return undefined;
  }

  /** Keys that were written or deleted since the last call, and not rolled back; all keys at the first call. */
  takeChanged(): ReadonlySet<string> {
    const changed = this.#changed ?? new Set(this.#rows.keys());
    this.#changed = new Set();
    return changed;
  }

  /** True if the key is the first change of it since the last `takeChanged`; false if changes are not tracked. */
  #noteChange(key: string): boolean {
    if (this.#changed === null || this.#changed.has(key)) return false;
    this.#changed.add(key);
    return true;
  }

  snapshot(): ReadonlyMap<string, Row> {
    return new Map(this.#rows);
  }

  restore(rows: ReadonlyMap<string, Row>): void {
    this.#rows = new Map(rows);
  }
}
