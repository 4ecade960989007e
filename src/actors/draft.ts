import type { AnyMachineSnapshot } from 'xstate';
import { type EpochMs, type Json, SYSTEM } from '../domain/values.ts';
import type { Snapshot } from '../machines/definition.ts';
import { isDurable, isKept, isRow, type Output } from '../machines/outputs.ts';
import type { ActorCommit, JournalEntry, OutboxKey, TimerRow } from '../store/contract.ts';
import { decide } from './decide.ts';
import type { Entity } from './entity.ts';
import type { Letter } from './letters.ts';

/** What one letter did to the provisional snapshot. */
export interface Step {
  letter: Letter;
  from: Json;
  snapshot: AnyMachineSnapshot;
  version: number;
  outputs: readonly Output[];
  understood: boolean;
  committed: boolean;
  /** What goes through the outbox, numbered within the actor's commit. */
  durable: Durable;
}

type Durable = readonly ActorCommit['outbox'][number][];
const NOTHING: Durable = [];

/** What one turn would make of one actor. */
export interface Draft {
  entity: Entity;
  /** Made by another actor of its turn: there with all of the turn, or not at all. */
  newcomer: boolean;
  steps: Step[];
  failed: { letter: Letter; error: Error }[];
  gathered: Gathered;
  snapshot: AnyMachineSnapshot;
  version: number;
  since: EpochMs;
  /** Made when all is decided; null where nothing has to be kept. */
  commit: ActorCommit | null;
  /** Outbox rows and timers that called for no transition. */
  delivered: OutboxKey[];
  spent: string[];
}

/** The letters of `entity` decided one after another, on provisional snapshots. Nothing is adopted. */
export function draft(entity: Entity, letters: readonly Letter[]): Draft {
  const made: Draft = {
    entity,
    newcomer: false,
    steps: [],
    failed: [],
    gathered: new Gathered(),
    snapshot: entity.snapshot,
    version: entity.version,
    since: entity.since,
    commit: null,
    delivered: [],
    spent: [],
  };
  for (const letter of letters) {
    try {
      step(made, letter);
    } catch (error) {
      made.failed.push({ letter, error: error instanceof Error ? error : new Error(String(error)) });
    }
  }
  return made;
}

/** A timer that fired before its state was entered again: the new deadline stands. */
const IGNORED = { understood: false, outputs: [] } as const;

/** Nothing more is decided: what has to be kept is put together. */
export function close(made: Draft): void {
  if (!made.gathered.commits) return;
  made.commit = made.gathered.build(made);
  // Set again by what came after it, it is another timer with the same name.
  const { set } = made.commit.timers;
  if (made.spent.length > 0) made.spent = made.spent.filter((id) => !set.some((timer) => timer.id === id));
}

/** One more letter, on what those before made of the actor. What it throws leaves the draft as it was. */
export function step(made: Draft, letter: Letter): Step {
  const { entity, gathered } = made;
  const { definition } = entity;
  const { event } = letter;
  const before = made.snapshot;
  const expired = letter.timer !== null && (gathered.sets(letter.timer) || letter.superseded?.() === true);
  const decided = expired ? IGNORED : decide(definition, before, event);
  const { outputs } = decided;
  if (!decided.understood) {
    if (letter.delivers) made.delivered.push(letter.delivers);
    if (letter.timer && !expired) made.spent.push(letter.timer);
    return add(made, {
      letter,
      from: before.value,
      snapshot: before,
      version: made.version,
      outputs,
      understood: false,
      committed: false,
      durable: NOTHING,
    });
  }
  const after = decided.snapshot;
  const moved = after !== before && !sameValue(before.value, after.value);
  const kept = outputs.some(isKept) || decided.timers.length > 0;
  const idempotency = letter.options?.idempotency?.({ snapshot: after as unknown as Snapshot, outputs }) ?? null;
  let durable = NOTHING;
  const commits = kept || moved || idempotency !== null || (after !== before && !definition.isSoft(event));
  if (commits) {
    // Everything that may throw comes before the first change: a step is taken whole or not at all.
    const note = definition.journal(
      event,
      made.version === 0 ? null : (before as unknown as Snapshot),
      after as unknown as Snapshot,
    );
    made.version += 1;
    if (moved || made.version === 1) made.since = event.at;
    if (kept) durable = gathered.keep(outputs);
    if (note) {
      gathered.journal.push({
        version: made.version,
        at: event.at,
        by: event.by ?? SYSTEM,
        event: event.type,
        from: made.version === 1 ? null : before.value,
        to: after.value,
        data: note.data,
      });
    }
    if (letter.timer) gathered.clearTimer(letter.timer);
    for (const change of decided.timers) {
      if ('clear' in change) gathered.clearTimer(change.clear);
      else
        gathered.setTimer({
          ref: entity.ref,
          id: change.set,
          event: change.event,
          dueAt: event.at + change.delay,
        });
    }
    if (letter.delivers) gathered.delivered.push(letter.delivers);
    gathered.idempotency ??= idempotency;
    gathered.commits = true;
  } else {
    if (letter.delivers) made.delivered.push(letter.delivers);
    if (letter.timer) made.spent.push(letter.timer);
  }
  made.snapshot = after;
  return add(made, {
    letter,
    from: before.value,
    snapshot: after,
    version: made.version,
    outputs,
    understood: true,
    committed: commits,
    durable,
  });
}

function add(made: Draft, taken: Step): Step {
  made.steps.push(taken);
  return taken;
}

/** What the steps of one actor add up to. */
class Gathered {
  journal: JournalEntry[] = [];
  /** Durable outputs so far. */
  private said = 0;
  rows: ActorCommit['rows'] = [];
  idempotency: ActorCommit['idempotency'] = null;
  delivered: OutboxKey[] = [];
  commits = false;
  private timers: Map<string, TimerRow | null> | null = null;

  /** Answers what of it goes through the outbox. */
  keep(outputs: readonly Output[]): Durable {
    const durable: ActorCommit['outbox'] = [];
    for (const output of outputs) {
      if (isDurable(output)) durable.push({ n: this.said++, output });
      else if (isRow(output)) this.rows.push(output);
    }
    return durable;
  }

  /** Whether a step of this draft has set the timer. */
  sets(id: string): boolean {
    return this.timers?.get(id) != null;
  }

  setTimer(row: TimerRow): void {
    this.timer(row.id, row);
  }

  clearTimer(id: string): void {
    this.timer(id, null);
  }

  private timer(id: string, row: TimerRow | null): void {
    this.timers ??= new Map();
    this.timers.set(id, row);
  }

  build(made: Draft): ActorCommit {
    const { entity } = made;
    const { definition } = entity;
    const snapshot = made.snapshot as unknown as Snapshot;
    const set: TimerRow[] = [];
    const clear: string[] = [];
    for (const [id, row] of this.timers ?? []) {
      if (row) set.push(row);
      else if (entity.version > 0) clear.push(id);
    }
    return {
      ref: entity.ref,
      tenantId: definition.tenantOf(snapshot.context),
      readVersion: entity.version,
      version: made.version,
      machineVersion: definition.version,
      value: snapshot.value,
      context: definition.toStored(snapshot.context),
      moving: definition.moving,
      settled: isSettled(entity, made.snapshot),
      columns: definition.columns(snapshot),
      since: made.since,
      journal: this.journal,
      outbox: made.steps.flatMap(({ durable }) => durable),
      timers: { set, clear },
      rows: this.rows,
      idempotency: this.idempotency,
      delivered: this.delivered,
    };
  }
}

/** Whether `next` differs from the entity's row in moving members alone; what was only read may be stored in other words. */
export const isSettled = ({ settled, snapshot, definition: { moving } }: Entity, next: AnyMachineSnapshot): boolean =>
  settled && (snapshot === next || movesOnly(moving, snapshot.context, next.context));

/** Whether two contexts differ in moving members alone. A transition never takes a member away. */
export function movesOnly(moving: ReadonlySet<string>, before: object, after: object): boolean {
  const was = before as Record<string, unknown>;
  const is = after as Record<string, unknown>;
  for (const member in is) if (is[member] !== was[member] && !moving.has(member)) return false;
  return true;
}

/** State values are strings, or objects of them by region. */
export function sameValue(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => sameValue(a[key] ?? null, b[key] ?? null));
}
