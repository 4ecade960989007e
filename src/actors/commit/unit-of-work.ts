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
  failed: { envelope: Envelope; error: Error }[];
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
export function createUnitOfWork(actor: LiveActor, envelopes: readonly Envelope[]): UnitOfWork {
  const unit: UnitOfWork = {
    actor,
    isNew: false,
    decisions: [],
    failed: [],
    effects: new Effects(),
    snapshot: actor.snapshot,
    version: actor.version,
    since: actor.since,
    commit: null,
    delivered: [],
    spentTimers: [],
  };
  for (const envelope of envelopes) {
    try {
      decideNext(unit, envelope);
    } catch (error) {
      unit.failed.push({ envelope, error: error instanceof Error ? error : new Error(String(error)) });
    }
  }
  return unit;
}

/** A timer that fired before its state was entered again: the new deadline stands. */
const IGNORED = { understood: false, outputs: [] } as const;

/** Nothing more is decided: what has to be kept is put together. */
export function seal(unit: UnitOfWork): void {
  if (!unit.effects.needsCommit) return;
  unit.commit = unit.effects.toCommit(unit);
  // Set again by what came after it, it is another timer with the same name.
  const { set } = unit.commit.timers;
  if (unit.spentTimers.length > 0)
    unit.spentTimers = unit.spentTimers.filter((id) => !set.some((timer) => timer.id === id));
}

/** One more letter, on what those before made of the actor. What it throws leaves the draft as it was. */
export function decideNext(unit: UnitOfWork, envelope: Envelope): Decision {
  const { actor, effects } = unit;
  const { definition } = actor;
  const { event } = envelope;
  const before = unit.snapshot;
  const stale =
    envelope.firedTimer !== null && (effects.setsTimer(envelope.firedTimer) || envelope.superseded?.() === true);
  const result = stale ? IGNORED : decide(definition, before, event);
  const { outputs } = result;
  if (!result.understood) {
    if (envelope.outboxKey) unit.delivered.push(envelope.outboxKey);
    if (envelope.firedTimer && !stale) unit.spentTimers.push(envelope.firedTimer);
    return addDecision(unit, {
      envelope,
      from: before.value,
      snapshot: before,
      version: unit.version,
      outputs,
      understood: false,
      committed: false,
      outboxEntries: NO_OUTBOX_ENTRIES,
    });
  }
  const after = result.snapshot;
  const stateChanged = after !== before && !isSameStateValue(before.value, after.value);
  const hasEffects = outputs.some(needsCommit) || result.timers.length > 0;
  const idempotency = envelope.options?.idempotency?.({ snapshot: after as unknown as Snapshot, outputs }) ?? null;
  let outboxEntries = NO_OUTBOX_ENTRIES;
  const committed =
    hasEffects || stateChanged || idempotency !== null || (after !== before && !definition.isTransient(event));
  if (committed) {
    // Everything that may throw comes before the first change: a step is taken whole or not at all.
    const note = definition.journal(
      event,
      unit.version === 0 ? null : (before as unknown as Snapshot),
      after as unknown as Snapshot,
    );
    unit.version += 1;
    if (stateChanged || unit.version === 1) unit.since = event.at;
    if (hasEffects) outboxEntries = effects.addOutputs(outputs);
    if (note) {
      effects.journal.push({
        version: unit.version,
        at: event.at,
        by: event.by ?? SYSTEM,
        event: event.type,
        from: unit.version === 1 ? null : before.value,
        to: after.value,
        data: note.data,
      });
    }
    if (envelope.firedTimer) effects.clearTimer(envelope.firedTimer);
    for (const change of result.timers) {
      if ('clear' in change) effects.clearTimer(change.clear);
      else
        effects.setTimer({
          ref: actor.ref,
          id: change.set,
          event: change.event,
          dueAt: event.at + change.delay,
        });
    }
    if (envelope.outboxKey) effects.delivered.push(envelope.outboxKey);
    effects.idempotency ??= idempotency;
    effects.needsCommit = true;
  } else {
    if (envelope.outboxKey) unit.delivered.push(envelope.outboxKey);
    if (envelope.firedTimer) unit.spentTimers.push(envelope.firedTimer);
  }
  unit.snapshot = after;
  return addDecision(unit, {
    envelope,
    from: before.value,
    snapshot: after,
    version: unit.version,
    outputs,
    understood: true,
    committed,
    outboxEntries,
  });
}

function addDecision(unit: UnitOfWork, decision: Decision): Decision {
  unit.decisions.push(decision);
  return decision;
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
    const outboxEntries: ActorCommit['outbox'] = [];
    for (const output of outputs) {
      if (isDurable(output)) outboxEntries.push({ n: this.outboxCount++, output });
      else if (isRow(output)) this.rows.push(output);
    }
    return outboxEntries;
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

  toCommit(unit: UnitOfWork): ActorCommit {
    const { actor } = unit;
    const { definition } = actor;
    const snapshot = unit.snapshot as unknown as Snapshot;
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
      version: unit.version,
      machineVersion: definition.version,
      value: snapshot.value,
      context: definition.toStored(snapshot.context),
      liveFields: definition.liveFields,
      unchangedBase: isBaseUnchanged(actor, unit.snapshot),
      columns: definition.columns(snapshot),
      since: unit.since,
      journal: this.journal,
      outbox: unit.decisions.flatMap(({ outboxEntries }) => outboxEntries),
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
export function differsOnlyIn(liveFields: ReadonlySet<string>, before: object, after: object): boolean {
  const previous = before as Record<string, unknown>;
  const current = after as Record<string, unknown>;
  for (const member in current) if (current[member] !== previous[member] && !liveFields.has(member)) return false;
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
