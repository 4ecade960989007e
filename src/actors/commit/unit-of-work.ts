import { type EpochMs, type Json, SYSTEM } from '../../domain/values.ts';
import { compiledMachine, type MachineSnapshot, type TransitionResult } from '../../machines/compiled.ts';
import { isDurable, isRow, isSamples, needsCommit, type Output, type SamplesOutput } from '../../machines/outputs.ts';
import type { ActorCommit, JournalEntry, OutboxKey, TimerRow } from '../../store/contract.ts';
import type { Envelope } from '../envelope.ts';
import type { LiveActor } from '../live-actor.ts';
import { reportedSamples } from './reported-samples.ts';

/** The result of one event on the provisional snapshot. */
export interface DecidedEvent {
  envelope: Envelope;
  from: Json;
  snapshot: MachineSnapshot;
  version: number;
  outputs: readonly Output[];
  understood: boolean;
  committed: boolean;
  /** Outputs that go through the outbox, numbered within the actor's commit. */
  outboxEntries: OutboxEntries;
}

type OutboxEntries = readonly ActorCommit['outbox'][number][];
const NO_OUTBOX_ENTRIES: OutboxEntries = [];

/** Unit of work: the decisions and the commit of one actor in one batch. */
export interface UnitOfWork {
  actor: LiveActor;
  /** Created by another actor of the same batch: commits with that batch, or does not exist. */
  isNew: boolean;
  decisions: DecidedEvent[];
  failed: { envelope: Envelope; error: Error }[];
  effects: Effects;
  snapshot: MachineSnapshot;
  version: number;
  since: EpochMs;
  /** Set by `seal`; null if there is nothing to commit. */
  commit: ActorCommit | null;
  /** Outbox rows that caused no transition. */
  delivered: OutboxKey[];
  /** Timers that fired without causing a transition. */
  spentTimers: string[];
}

/** Decides the events of `actor` one after another on provisional snapshots. The actor itself does not change. */
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

/** Result for a timer that fired before its state was re-entered: the new deadline applies. */
const IGNORED = { understood: false, outputs: [] } as const;

/** Closes the unit for further decisions and builds its commit. */
export function finalize(unit: UnitOfWork): void {
  if (!unit.effects.needsCommit) return;
  unit.commit = unit.effects.toCommit(unit);
  // A later event set a timer with the same name; that row must not be deleted.
  const { set } = unit.commit.timers;
  if (unit.spentTimers.length > 0)
    unit.spentTimers = unit.spentTimers.filter((id) => !set.some((timer) => timer.id === id));
}

/** Decides one more event on the provisional snapshot. If it throws, the unit is unchanged. */
export function decideNext(unit: UnitOfWork, envelope: Envelope): DecidedEvent {
  const { actor, snapshot: before } = unit;
  const { event, firedTimer } = envelope;
  const isStale = firedTimer !== null && (unit.effects.setsTimer(firedTimer) || envelope.superseded?.() === true);
  const result = isStale ? IGNORED : compiledMachine(actor.definition.machine).transition(before, event);
  const from = before.value;
  const { outputs, understood } = result;
  if (!understood) {
    // A stale timer's row is the one of the new deadline.
    addSpent(unit, envelope, isStale ? null : firedTimer);
    return addDecision(unit, {
      envelope,
      from,
      snapshot: before,
      version: unit.version,
      outputs,
      understood,
      committed: false,
      outboxEntries: NO_OUTBOX_ENTRIES,
    });
  }
  const { snapshot } = result;
  const stateChanged = snapshot !== before && !isSameStateValue(from, snapshot.value);
  const hasEffects = outputs.some(needsCommit) || result.timers.length > 0;
  const idempotency = envelope.options?.idempotency?.({ snapshot, outputs }) ?? null;
  const committed =
    hasEffects || stateChanged || idempotency !== null || (snapshot !== before && !actor.definition.isTransient(event));
  let outboxEntries = NO_OUTBOX_ENTRIES;
  if (committed) outboxEntries = addToCommit(unit, envelope, result, { stateChanged, hasEffects, idempotency });
  else addSpent(unit, envelope, firedTimer);
  unit.snapshot = snapshot;
  return addDecision(unit, {
    envelope,
    from,
    snapshot,
    version: unit.version,
    outputs,
    understood,
    committed,
    outboxEntries,
  });
}

/** The event causes no commit of its actor: its outbox row and its fired timer are deleted without one. */
function addSpent(unit: UnitOfWork, { outboxKey }: Envelope, firedTimer: string | null): void {
  if (outboxKey) unit.delivered.push(outboxKey);
  if (firedTimer) unit.spentTimers.push(firedTimer);
}

/** Adds a transition to the commit, with everything that is written together with it. */
function addToCommit(
  unit: UnitOfWork,
  envelope: Envelope,
  { snapshot: after, outputs, timers }: TransitionResult,
  about: { stateChanged: boolean; hasEffects: boolean; idempotency: ActorCommit['idempotency'] },
): OutboxEntries {
  const { actor, effects, snapshot: before } = unit;
  const { event, firedTimer, outboxKey } = envelope;
  // Everything that may throw comes before the first change, so a decision applies completely or not at all.
  const note = actor.definition.journal(event, unit.version === 0 ? null : before, after);
  unit.version += 1;
  if (about.stateChanged || unit.version === 1) unit.since = event.at;
  if (note) {
    // In the order in which `jsonb` has its members, so that the database does not sort them.
    effects.journal.push({
      at: event.at,
      by: event.by ?? SYSTEM,
      to: after.value,
      data: note.data,
      from: unit.version === 1 ? null : before.value,
      event: event.type,
      version: unit.version,
    });
  }
  if (firedTimer) effects.clearTimer(firedTimer);
  for (const change of timers) {
    if ('clear' in change) effects.clearTimer(change.clear);
    else effects.setTimer({ ref: actor.ref, id: change.set, event: change.event, dueAt: event.at + change.delay });
  }
  if (outboxKey) effects.delivered.push(outboxKey);
  effects.idempotency ??= about.idempotency;
  effects.needsCommit = true;
  return about.hasEffects ? effects.addOutputs(outputs) : NO_OUTBOX_ENTRIES;
}

function addDecision(unit: UnitOfWork, decision: DecidedEvent): DecidedEvent {
  unit.decisions.push(decision);
  return decision;
}

/** Unanswered envelopes, without messages sent within the batch: their sender decides again and resends. */
export const unansweredEnvelopes = ({ decisions }: UnitOfWork): Envelope[] =>
  decisions.map(({ envelope }) => envelope).filter(({ answered, sentWithinBatch }) => !answered && !sentWithinBatch);

/** Accumulated effects of all decisions of one unit. */
class Effects {
  journal: JournalEntry[] = [];
  /** Durable outputs so far; the number of the next one. */
  #outboxCount = 0;
  rows: ActorCommit['rows'] = [];
  #samples: SamplesOutput[] | null = null;
  idempotency: ActorCommit['idempotency'] = null;
  delivered: OutboxKey[] = [];
  needsCommit = false;
  #timers: Map<string, TimerRow | null> | null = null;

  /** Returns those outputs that go through the outbox. */
  addOutputs(outputs: readonly Output[]): OutboxEntries {
    const outboxEntries: ActorCommit['outbox'] = [];
    for (const output of outputs) {
      if (isDurable(output)) outboxEntries.push({ n: this.#outboxCount++, output });
      else if (isRow(output)) this.rows.push(output);
      else if (isSamples(output)) {
        this.#samples ??= [];
        this.#samples.push(output);
      }
    }
    return outboxEntries;
  }

  /** Whether a decision of this unit has set the timer. */
  setsTimer(id: string): boolean {
    return this.#timers?.get(id) != null;
  }

  setTimer(row: TimerRow): void {
    this.#recordTimer(row.id, row);
  }

  clearTimer(id: string): void {
    this.#recordTimer(id, null);
  }

  #recordTimer(id: string, row: TimerRow | null): void {
    this.#timers ??= new Map();
    this.#timers.set(id, row);
  }

  toCommit(unit: UnitOfWork): ActorCommit {
    const { actor } = unit;
    const { definition } = actor;
    const snapshot = unit.snapshot;
    const stored = definition.toStored(snapshot.context);
    const set: TimerRow[] = [];
    const clear: string[] = [];
    for (const [id, row] of this.#timers ?? []) {
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
      fixed: stored.fixed,
      live: stored.live,
      fixedUnchanged: isFixedUnchanged(actor, unit.snapshot),
      columns: definition.columns(snapshot),
      since: unit.since,
      journal: this.journal,
      outbox: unit.decisions.flatMap(({ outboxEntries }) => outboxEntries),
      timers: { set, clear },
      rows: this.rows,
      samples: this.#samples && reportedSamples(this.#samples),
      idempotency: this.idempotency,
      delivered: this.delivered,
    };
  }
}

/**
 * Whether the actor's stored row has the fixed part of `next`. False if this process has only read the row: its stored
 * form may differ from what this version would write.
 */
export const isFixedUnchanged = ({ fixedStored, snapshot }: LiveActor, next: MachineSnapshot): boolean =>
  fixedStored && snapshot.context.fixed === next.context.fixed;

/** Compares state values: strings, or objects of them by region. */
export function isSameStateValue(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => isSameStateValue(a[key] ?? null, b[key] ?? null));
}
