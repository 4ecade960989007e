import type { JournalRow, MemoryDatabase, StoredTimer } from '../../support/memory-store/database.ts';
import { actorKey } from '../../support/memory-store/database.ts';
import type { World } from '../world/world.ts';

/** Longer than an unaffected process takes from a due time to the commit of the event. */
const LATE_MS = 10_000;

/** Timers: each fires once, not before its due time, and not long after it. */
export class DeadlineInvariants {
  readonly #world: World;
  readonly #database: MemoryDatabase;
  readonly #rows = new Map<string, StoredTimer>();
  readonly #byActor = new Map<string, Map<string, StoredTimer>>();
  /** Types of events that timers cause. */
  readonly #events = new Set<string>();

  constructor(world: World, database: MemoryDatabase) {
    this.#world = world;
    this.#database = database;
  }

  /** The pending timer events of an actor, as of the last check. */
  of(actor: string): string[] {
    return [...(this.#byActor.get(actor)?.values() ?? [])].map(({ event }) => event);
  }

  /** Called after each writing statement: `added` has the new journal entries by actor. */
  check(added: ReadonlyMap<string, readonly JournalRow[]>, clockErrorMs: number): void {
    const before = new Map([...added.keys()].map((actor) => [actor, [...(this.#byActor.get(actor)?.values() ?? [])]]));
    this.#takeChanges();
    for (const [actor, entries] of added) {
      const waiting = before.get(actor) ?? [];
      for (const entry of entries) {
        if (this.#events.has(entry.event)) this.#fired(actor, entry, waiting, clockErrorMs);
      }
    }
  }

  checkLateness(): void {
    this.#takeChanges();
    const limit = this.#world.now() - LATE_MS;
    for (const { ref, event, dueAt } of this.#rows.values()) {
      if (dueAt < limit) {
        this.#world.fail('timers-fire-once', `${event} of ${actorKey(ref)} is ${limit + LATE_MS - dueAt} ms late`);
      }
    }
  }

  /** `waiting` are the timers before the commit; the event removes one of them. */
  #fired(actor: string, { event, version, at }: JournalRow, waiting: StoredTimer[], clockErrorMs: number): void {
    const index = waiting.findIndex((timer) => timer.event === event);
    const [timer] = index < 0 ? [] : waiting.splice(index, 1);
    if (timer === undefined) {
      this.#world.fail('timers-fire-once', `${event} of ${actor} took effect again, as version ${version}`);
      return;
    }
    this.#world.count('deadlines fired');
    if (at < timer.dueAt || this.#world.now() + Math.max(0, clockErrorMs) + 1 < timer.dueAt) {
      this.#world.fail('timers-fire-once', `${event} of ${actor} took effect before ${timer.dueAt}, at ${at}`);
    }
    if (this.#byActor.get(actor)?.get(timer.id) === timer) {
      this.#world.fail('timers-fire-once', `${event} of ${actor} took effect and is still to come`);
    }
  }

  #takeChanges(): void {
    const { timers } = this.#database.tables;
    for (const key of timers.takeChanged()) {
      const old = this.#rows.get(key);
      const row = timers.get(key);
      if (old !== undefined) this.#byActor.get(actorKey(old.ref))?.delete(old.id);
      if (row === undefined) this.#rows.delete(key);
      else this.#add(key, row);
    }
  }

  #add(key: string, row: StoredTimer): void {
    this.#rows.set(key, row);
    this.#events.add(row.event);
    const actor = actorKey(row.ref);
    const own = this.#byActor.get(actor) ?? new Map<string, StoredTimer>();
    this.#byActor.set(actor, own.set(row.id, row));
  }
}
