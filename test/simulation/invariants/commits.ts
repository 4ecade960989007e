import type { MemoryDatabase } from '../../support/memory-store/database.ts';
import type { World } from '../world/world.ts';
import { isFinal } from './statuses.ts';

interface Seen {
  version: number;
  entries: number;
  status: string | null;
}

/** Looks at each actor that a statement has changed. */
export class CommitInvariants {
  readonly #world: World;
  readonly #database: MemoryDatabase;
  readonly #seen = new Map<string, Seen>();

  constructor(world: World, database: MemoryDatabase) {
    this.#world = world;
    this.#database = database;
  }

  /** After each statement that wrote. */
  check(): void {
    for (const [key, row] of this.#database.tables.actors) {
      const before = this.#seen.get(key) ?? { version: 0, entries: 0, status: null };
      if (row.version === before.version) continue;
      const status = typeof row.columns.status === 'string' ? row.columns.status : null;
      const journal = this.#database.tables.journal.get(key) ?? [];
      this.#versions(
        key,
        before,
        row.version,
        journal.slice(before.entries).map(({ version }) => version),
      );
      if (row.ref.kind === 'command') this.#lifecycle(key, before.status, status, String(row.columns.verification));
      this.#seen.set(key, { version: row.version, entries: journal.length, status });
    }
  }

  #versions(key: string, before: Seen, version: number, entries: readonly number[]): void {
    if (version < before.version)
      this.#fail('versions-are-gapless', `${key} went from ${before.version} to ${version}`);
    let last = before.version;
    for (const entry of entries) {
      if (entry <= last || entry > version) {
        this.#fail('versions-are-gapless', `${key}: journal entry ${entry} between ${last} and ${version}`);
      }
      last = entry;
    }
  }

  #lifecycle(key: string, from: string | null, to: string | null, verification: string): void {
    if (from !== null && isFinal(from) && from !== to && from !== 'timed_out') {
      this.#fail('what-is-over-stays-over', `${key} went from ${from} to ${to}`);
    }
    if (to === null || !isFinal(to) || to === 'timed_out' || verification === 'pending') return;
    for (const [timer, { event }] of this.#database.tables.timers) {
      if (timer.startsWith(`${key}:`))
        this.#fail('deadlines-end-with-their-state', `${key} is ${to} and waits for ${event}`);
    }
  }

  #fail(invariant: string, detail: string): void {
    this.#world.fail(invariant, detail);
  }
}
