import { deepStrictEqual } from 'node:assert';
import { type AnyActorScope, type AnyMachineSnapshot, createEmptyActor } from 'xstate';
import { differsOnlyIn } from '../../src/actors/commit/unit-of-work.ts';
import { blankSnapshot, decide, restoreSnapshot } from '../../src/actors/decide.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import type { MachineDefinition, MachineEvent, Snapshot } from '../../src/machines/definition.ts';
import type { Output, TimerChange } from '../../src/machines/outputs.ts';
import { tableOf } from '../../src/store/postgres/actor-tables.ts';

/** Effects of one event. `timers` are in the order in which they were set and cleared. */
export interface Step {
  same: boolean;
  outputs: Output[];
  timers: TimerChange[];
}

/** Drives a machine like the runtime, without a runtime: decides, stores the result, tracks running timers. */
export class Driven<Context, Event extends MachineEvent = MachineEvent> {
  snapshot: AnyMachineSnapshot;
  /** The same actor as in the runtime: computed by compiled transitions. */
  private learnt: AnyMachineSnapshot;
  readonly running = new Map<string, { event: string; dueAt: number }>();
  private readonly definition: MachineDefinition<Context>;
  private outputs: Output[] = [];
  private timers: TimerChange[] = [];
  private readonly scope: AnyActorScope;

  constructor(definition: MachineDefinition<Context>) {
    this.definition = definition;
    const inert = (createEmptyActor() as unknown as { _actorScope: AnyActorScope })._actorScope;
    this.scope = { ...inert, actionExecutor: (action) => this.collect(action.type, action.params as never) };
    this.snapshot = definition.machine.getInitialSnapshot(this.scope, undefined);
    this.learnt = blankSnapshot(this.plainly());
  }

  get context(): Context {
    return this.snapshot.context as Context;
  }

  get value(): unknown {
    return this.snapshot.value;
  }

  /** Sends an event of the machine or of a timer. */
  send(event: Event | { type: `xstate.after.${string}`; at: number }): Step {
    const before = this.snapshot;
    this.outputs = [];
    this.timers = [];
    frozen(event);
    const next = this.definition.machine.transition(before, event, this.scope) as AnyMachineSnapshot;
    if (next.status === 'error') throw next.error;
    this.agreesWithRuntime(before, event, next);
    for (const change of this.timers) {
      if ('clear' in change) this.running.delete(change.clear);
      else this.running.set(change.set, { event: change.event, dueAt: event.at + change.delay });
    }
    if (before.context !== blankSnapshot(this.plainly()).context) this.tellsMoves(before, next);
    this.snapshot = next;
    return { same: next === before, outputs: this.outputs, timers: this.timers };
  }

  /** Fires the earliest running timer at its due time, or `late` milliseconds after it. */
  fire(late = 0): Step {
    const [id, timer] = [...this.running].sort(([, a], [, b]) => a.dueAt - b.dueAt)[0] ?? [];
    if (!id || !timer) throw new Error('no timer runs');
    this.running.delete(id);
    return this.send({ type: timer.event as `xstate.after.${string}`, at: timer.dueAt + late });
  }

  /** Reloads the actor as from the store: only stored data remains. */
  reload(): void {
    this.resume(JSON.parse(JSON.stringify(this.snapshot.value)), this.definition.toStored(this.context));
  }

  /** Continues from a stored state. */
  resume(value: Json, stored: JsonObject): void {
    const read = (): object => this.definition.fromStored(JSON.parse(JSON.stringify(stored))) as object;
    this.snapshot = this.definition.machine.resolveState({ value: value as never, context: read() as never });
    this.learnt = restoreSnapshot(this.plainly(), asJsonb(value), read());
  }

  asSnapshot(): Snapshot<Context> {
    return this.snapshot as unknown as Snapshot<Context>;
  }

  /**
   * The runtime calls the functions of actions itself once it has compiled a transition: the result must be the same.
   */
  private agreesWithRuntime(before: AnyMachineSnapshot, event: MachineEvent, next: AnyMachineSnapshot): void {
    const learnt = this.learnt;
    const decided = decide(this.plainly(), learnt, event);
    const understood = next !== before || this.outputs.length > 0 || this.timers.length > 0;
    deepStrictEqual(
      [decided.snapshot === learnt, told(decided.snapshot), decided.outputs, decided.timers, decided.understood],
      [next === before, told(next), this.outputs, this.timers, understood],
    );
    this.learnt = decided.snapshot;
    for (const kept of [next, decided.snapshot]) frozen([kept.value, kept.context]);
  }

  /** If only live fields change, no column may change that a commit with an unchanged base does not write. */
  private tellsMoves(before: AnyMachineSnapshot, next: AnyMachineSnapshot): void {
    const { liveFields, kind } = this.definition;
    if (!differsOnlyIn(liveFields, before.context, next.context)) return;
    const written = tableOf(kind).liveColumns;
    const columnsOf = (snapshot: AnyMachineSnapshot) => {
      const columns = Object.entries(this.definition.columns(snapshot as unknown as Snapshot<Context>));
      return columns.filter(([name]) => !written.includes(name));
    };
    deepStrictEqual(columnsOf(next), columnsOf(before));
    const storedOf = (snapshot: AnyMachineSnapshot) =>
      Object.entries(this.definition.toStored(snapshot.context as Context)).filter(([name]) => !liveFields.has(name));
    deepStrictEqual(storedOf(next), storedOf(before));
  }

  private plainly(): MachineDefinition {
    return this.definition as unknown as MachineDefinition;
  }

  private collect(type: string, params: Record<string, unknown> | undefined): void {
    if (type === 'xstate.emit') this.outputs.push(params?.event as Output);
    else if (type === 'xstate.cancel') this.timers.push({ clear: String(params?.sendId) });
    else if (type !== 'xstate.raise') throw new Error(`a side effect: ${type}`);
    else if (params?.delay !== undefined) {
      const event = (params.event as { type: string }).type;
      this.timers.push({ set: String(params.id ?? event), event, delay: Number(params.delay) });
    }
  }
}

/** A snapshot in comparable form; the order of its nodes and tags has no meaning. */
const told = (snapshot: AnyMachineSnapshot) => ({
  ...(JSON.parse(JSON.stringify(snapshot)) as object),
  value: snapshot.value,
  context: snapshot.context,
  tags: [...snapshot.tags].sort(),
  nodes: snapshot._nodes.map(({ id }) => id).sort(),
});

/** PostgreSQL orders the keys of a `jsonb` object by length, then by bytes. */
function asJsonb(value: Json): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).sort(([a], [b]) => a.length - b.length || (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, below]) => [key, asJsonb(below)]));
}

/** Freezes the input and output of a machine, so that a modification throws. */
function frozen(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value) || ArrayBuffer.isView(value)) return;
  Object.freeze(value);
  for (const below of Object.values(value)) frozen(below);
}
