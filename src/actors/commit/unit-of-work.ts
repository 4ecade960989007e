import type { AnyMachineSnapshot } from 'xstate';
import { type EpochMs, type Json, SYSTEM } from '../../domain/values.ts';
import type { Snapshot } from '../../machines/definition.ts';
import { isDurable, isRow, needsCommit, type Output } from '../../machines/outputs.ts';
import type { ActorCommit, JournalEntry, OutboxKey, TimerRow } from '../../store/contract.ts';
import { decide } from '../decide.ts';
import type { Envelope } from '../envelope.ts';
import type { LiveActor } from '../live-actor.ts';

/** What one letter did to the provisional snapshot. */
export interface Decision {
  envelope: Envelope;
  from: Json;
  snapshot: AnyMachineSnapshot;
  version: number;
  outputs: readonly Output[];
  understood: boolean;
  committed: boolean;
  /** What goes through the outbox, numbered within the actor's commit. */
  outboxEntries: OutboxEntries;
}

type OutboxEntries = readonly ActorCommit['outbox'][number][];
const NO_OUTBOX_ENTRIES: OutboxEntries = [];

/** What one turn would make of one actor. */
export interface UnitOfWork {
  actor: LiveActor;
  /** Made by another actor of its turn: there with all of the turn, or not at all. */
  isNew: boolean;
  decisions: Decision[];
  failed: { letter: Envelope; error: Error }[];
  effects: Effects;
  snapshot: AnyMachineSnapshot;
  version: number;
  since: EpochMs;
  /** Made when all is decided; null where nothing has to be kept. */
  commit: ActorCommit | null;
  /** Outbox rows and timers that called for no transition. */
  delivered: OutboxKey[];
  spentTimers: string[];
}

/** The letters of `entity` decided one after another, on provisional snapshots. Nothing is adopted. */
export function createUnitOfWork(entity: LiveActor, letters: readonly Envelope[]): UnitOfWork {
  const made: UnitOfWork = {
    actor: entity,
    isNew: false,
    decisions: [],
    failed: [],
    effects: new Effects(),
    snapshot: entity.snapshot,
    version: entity.version,
    since: entity.since,
    commit: null,
    delivered: [],
    spentTimers: [],
  };
  for (const letter of letters) {
    try {
      decideNext(made, letter);
    } catch (error) {
      made.failed.push({ letter, error: error instanceof Error ? error : new Error(String(error)) });
    }
  }
  return made;
}

/** A timer that fired before its state was entered again: the new deadline stands. */
const IGNORED = { understood: false, outputs: [] } as const;

/** Nothing more is decided: what has to be kept is put together. */
export function seal(made: UnitOfWork): void {
  if (!made.effects.needsCommit) return;
  made.commit = made.effects.toCommit(made);
  // Set again by what came after it, it is another timer with the same name.
  const { set } = made.commit.timers;
  if (made.spentTimers.length > 0)
    made.spentTimers = made.spentTimers.filter((id) => !set.some((timer) => timer.id === id));
}

/** One more letter, on what those before made of the actor. What it throws leaves the draft as it was. */
export function decideNext(made: UnitOfWork, letter: Envelope): Decision {
  const { actor, effects } = made;
  const { definition } = actor;
  const { event } = letter;
  const before = made.snapshot;
  const expired =
    letter.firedTimer !== null && (effects.setsTimer(letter.firedTimer) || letter.superseded?.() === true);
  const decided = expired ? IGNORED : decide(definition, before, event);
  const { outputs } = decided;
  if (!decided.understood) {
    if (letter.outboxKey) made.delivered.push(letter.outboxKey);
    if (letter.firedTimer && !expired) made.spentTimers.push(letter.firedTimer);
    return addDecision(made, {
      envelope: letter,
      from: before.value,
      snapshot: before,
      version: made.version,
      outputs,
      understood: false,
      committed: false,
      outboxEntries: NO_OUTBOX_ENTRIES,
    });
  }
  const after = decided.snapshot;
  const moved = after !== before && !isSameStateValue(before.value, after.value);
  const kept = outputs.some(needsCommit) || decided.timers.length > 0;
  const idempotency = letter.options?.idempotency?.({ snapshot: after as unknown as Snapshot, outputs }) ?? null;
  let durable = NO_OUTBOX_ENTRIES;
  const commits = kept || moved || idempotency !== null || (after !== before && !definition.isTransient(event));
  if (commits) {
    // Everything that may throw comes before the first change: a step is taken whole or not at all.
    const note = definition.journal(
      event,
      made.version === 0 ? null : (before as unknown as Snapshot),
      after as unknown as Snapshot,
    );
    made.version += 1;
    if (moved || made.version === 1) made.since = event.at;
    if (kept) durable = effects.addOutputs(outputs);
    if (note) {
      effects.journal.push({
        version: made.version,
        at: event.at,
        by: event.by ?? SYSTEM,
        event: event.type,
        from: made.version === 1 ? null : before.value,
        to: after.value,
        data: note.data,
      });
    }
    if (letter.firedTimer) effects.clearTimer(letter.firedTimer);
    for (const change of decided.timers) {
      if ('clear' in change) effects.clearTimer(change.clear);
      else
        effects.setTimer({
          ref: actor.ref,
          id: change.set,
          event: change.event,
          dueAt: event.at + change.delay,
        });
    }
    if (letter.outboxKey) effects.delivered.push(letter.outboxKey);
    effects.idempotency ??= idempotency;
    effects.needsCommit = true;
  } else {
    if (letter.outboxKey) made.delivered.push(letter.outboxKey);
    if (letter.firedTimer) made.spentTimers.push(letter.firedTimer);
  }
  made.snapshot = after;
  return addDecision(made, {
    envelope: letter,
    from: before.value,
    snapshot: after,
    version: made.version,
    outputs,
    understood: true,
    committed: commits,
    outboxEntries: durable,
  });
}

function addDecision(made: UnitOfWork, taken: Decision): Decision {
  made.decisions.push(taken);
  return taken;
}

/** What the steps of one actor add up to. */
class Effects {
  journal: JournalEntry[] = [];
  /** Durable outputs so far. */
  private outboxCount = 0;
  rows: ActorCommit['rows'] = [];
  idempotency: ActorCommit['idempotency'] = null;
  delivered: OutboxKey[] = [];
  needsCommit = false;
  private timers: Map<string, TimerRow | null> | null = null;

  /** Answers what of it goes through the outbox. */
  addOutputs(outputs: readonly Output[]): OutboxEntries {
    const durable: ActorCommit['outbox'] = [];
    for (const output of outputs) {
      if (isDurable(output)) durable.push({ n: this.outboxCount++, output });
      else if (isRow(output)) this.rows.push(output);
    }
    return durable;
  }

  /** Whether a step of this draft has set the timer. */
  setsTimer(id: string): boolean {
    return this.timers?.get(id) != null;
  }

  setTimer(row: TimerRow): void {
    this.recordTimer(row.id, row);
  }

  clearTimer(id: string): void {
    this.recordTimer(id, null);
  }

  private recordTimer(id: string, row: TimerRow | null): void {
    this.timers ??= new Map();
    this.timers.set(id, row);
  }

  toCommit(made: UnitOfWork): ActorCommit {
    const { actor } = made;
    const { definition } = actor;
    const snapshot = made.snapshot as unknown as Snapshot;
    const set: TimerRow[] = [];
    const clear: string[] = [];
    for (const [id, row] of this.timers ?? []) {
      if (row) set.push(row);
      else if (actor.version > 0) clear.push(id);
    }
    return {
      ref: actor.ref,
      tenantId: definition.tenantOf(snapshot.context),
      readVersion: actor.version,
      version: made.version,
      machineVersion: definition.version,
      value: snapshot.value,
      context: definition.toStored(snapshot.context),
      liveFields: definition.liveFields,
      unchangedBase: isBaseUnchanged(actor, made.snapshot),
      columns: definition.columns(snapshot),
      since: made.since,
      journal: this.journal,
      outbox: made.decisions.flatMap(({ outboxEntries }) => outboxEntries),
      timers: { set, clear },
      rows: this.rows,
      idempotency: this.idempotency,
      delivered: this.delivered,
    };
  }
}

/** Whether `next` differs from the entity's row in moving members alone; what was only read may be stored in other words. */
export const isBaseUnchanged = (
  { baseStored, snapshot, definition: { liveFields } }: LiveActor,
  next: AnyMachineSnapshot,
): boolean => baseStored && (snapshot === next || differsOnlyIn(liveFields, snapshot.context, next.context));

/** Whether two contexts differ in moving members alone. A transition never takes a member away. */
export function differsOnlyIn(moving: ReadonlySet<string>, before: object, after: object): boolean {
  const was = before as Record<string, unknown>;
  const is = after as Record<string, unknown>;
  for (const member in is) if (is[member] !== was[member] && !moving.has(member)) return false;
  return true;
}

/** State values are strings, or objects of them by region. */
export function isSameStateValue(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => isSameStateValue(a[key] ?? null, b[key] ?? null));
}
