import type { ActorRef } from '../../../src/machines/outputs.ts';
import { type ActorRow, actorKey, type JournalRow, type MemoryDatabase } from '../../support/memory-store/database.ts';
import type { Ledger } from '../workload/ledger.ts';
import type { World } from '../world/world.ts';
import { DeadlineInvariants } from './deadlines.ts';
import { RowEffects } from './effects.ts';
import { checkJournal, checkStoredJournal } from './journal.ts';
import { isFinal } from './statuses.ts';
import { VersionInvariants } from './versions.ts';

interface Seen {
  version: number;
  entries: number;
  status: string | null;
}

interface ChangedCommand {
  key: string;
  row: ActorRow;
  before: Seen;
  status: string | null;
}

const NEVER_SEEN: Seen = { version: 0, entries: 0, status: null };

/** Checks each actor that a statement has changed. */
export class CommitInvariants {
  readonly #world: World;
  readonly #database: MemoryDatabase;
  readonly #ledger: Ledger;
  readonly #deadlines: DeadlineInvariants;
  readonly #versions: VersionInvariants;
  readonly #rows: RowEffects;
  readonly #seen = new Map<string, Seen>();
  /** The number that each device reported last. */
  readonly #reported = new Map<string, number>();

  constructor(world: World, database: MemoryDatabase, ledger: Ledger) {
    this.#world = world;
    this.#database = database;
    this.#ledger = ledger;
    this.#rows = new RowEffects(world, database);
    this.#versions = new VersionInvariants(world);
    this.#deadlines = new DeadlineInvariants(world, database);
  }

  /** Called after each writing statement; `clockErrorMs` is the clock of its process minus the true time. */
  check(clockErrorMs: number): void {
    const { actors, journal } = this.#database.tables;
    this.#rows.check();
    const commands: ChangedCommand[] = [];
    const added = new Map<string, readonly JournalRow[]>();
    for (const key of actors.takeChanged()) {
      const row = actors.get(key);
      const before = this.#seen.get(key) ?? NEVER_SEEN;
      if (row === undefined || row.version === before.version) continue;
      const all = journal.get(key) ?? [];
      const entries = all.slice(before.entries);
      const status = typeof row.columns.status === 'string' ? row.columns.status : null;
      checkJournal(this.#world, key, { before: before.version, last: all[before.entries - 1] ?? null, row, entries });
      this.#versions.stored(key, { from: before.version, to: row.version, entries });
      if (row.ref.kind === 'device') this.#device(key, row);
      if (row.ref.kind === 'command') commands.push({ key, row, before, status });
      this.#seen.set(key, { version: row.version, entries: all.length, status });
      added.set(key, entries);
    }
    this.#deadlines.check(added, clockErrorMs);
    for (const command of commands) this.#command(command, clockErrorMs);
  }

  /** Called when a process releases a transition of an actor. */
  released(ref: ActorRef, version: number, event: string): void {
    this.#versions.released(ref, version, event);
  }

  /** Called at the end of a run. */
  checkEnding(): void {
    this.#versions.checkAll();
    for (const row of this.#database.tables.actors.values()) {
      checkStoredJournal(this.#world, row, this.#database.tables.journal.get(actorKey(row.ref)) ?? []);
    }
  }

  /** Called periodically while no fault affects the active process. */
  checkLateness(): void {
    this.#deadlines.checkLateness();
  }

  /** Devices report increasing numbers: a report that arrives late must not replace a later one. */
  #device(key: string, { context }: ActorRow): void {
    const { n } = context.state as { n?: number };
    const before = this.#reported.get(key) ?? 0;
    if (n === undefined) return;
    if (n < before)
      this.#world.fail('late-reports-do-not-overwrite', `${key} reported ${before}, and ${n} replaced it`);
    this.#reported.set(key, n);
  }

  #command({ key, row, before, status }: ChangedCommand, clockErrorMs: number): void {
    if (before === NEVER_SEEN) {
      this.#ledger.requestedAt.set(row.ref.id, Number(row.context.requestedAt) - clockErrorMs);
    }
    const from = before.status;
    if (from !== null && isFinal(from) && from !== status && from !== 'timed_out') {
      this.#world.fail('final-status-does-not-change', `${key} went from ${from} to ${status}`);
    }
    if (status === null || !isFinal(status) || status === 'timed_out' || row.columns.verification === 'pending') return;
    for (const event of this.#deadlines.of(key)) {
      this.#world.fail('timers-end-with-their-state', `${key} is ${status} and waits for ${event}`);
    }
  }
}
