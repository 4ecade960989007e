import { deepStrictEqual } from 'node:assert';
import { type AnyMachineSnapshot, initialTransition, transition } from 'xstate';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { type CompiledMachine, compiledMachine, type MachineSnapshot } from '../../src/machines/compiled.ts';
import type { ContextParts, MachineDefinition, MachineEvent, Snapshot } from '../../src/machines/definition.ts';
import type { Output, TimerChange } from '../../src/machines/outputs.ts';
import { tableOf } from '../../src/store/postgres/actor-tables.ts';
import { flatContext } from '../support/stored-context.ts';

/** What one event did. `timers` are in the order they were set and cleared. */
export interface Step {
  same: boolean;
  outputs: Output[];
  timers: TimerChange[];
}

/** The step of an event that is ignored. */
export const NOTHING: Step = { same: true, outputs: [], timers: [] };

/** Drives a machine the way the runtime does, without the runtime: decide, keep, remember the timers that run. */
export class Driven<Context extends ContextParts, Event extends MachineEvent = MachineEvent> {
  snapshot: AnyMachineSnapshot;
  /** The same actor as the runtime has it. */
  #compiled: MachineSnapshot;
  readonly #table: CompiledMachine;
  readonly running = new Map<string, { event: string; dueAt: number }>();
  readonly #definition: MachineDefinition<Context>;

  constructor(definition: MachineDefinition<Context>) {
    this.#definition = definition;
    this.#table = compiledMachine(definition.machine);
    [this.snapshot] = initialTransition(definition.machine);
    this.#compiled = this.#table.initial;
  }

  get context(): Context {
    return this.snapshot.context as Context;
  }

  get value(): unknown {
    return this.snapshot.value;
  }

  /** One of the machine's events, or a timer's. */
  send(event: Event | { type: `xstate.after.${string}`; at: number }): Step {
    const before = this.snapshot;
    frozen(event);
    const [next, actions] = transition(this.#definition.machine, before, event);
    if (next.status === 'error') throw next.error;
    const step = { same: next === before, ...effectsOf(actions) };
    this.#assertRuntimeAgrees(event, next, step);
    for (const change of step.timers) {
      if ('clear' in change) this.running.delete(change.clear);
      else this.running.set(change.set, { event: change.event, dueAt: event.at + change.delay });
    }
    if (before.context !== this.#definition.machine.config.context) this.#assertFixedColumnsUnchanged(before, next);
    this.snapshot = next;
    return step;
  }

  /** Lets the earliest running timer fire at its time, or `late` milliseconds after. */
  fire(late = 0): Step {
    const [id, timer] = [...this.running].sort(([, a], [, b]) => a.dueAt - b.dueAt)[0] ?? [];
    if (!id || !timer) throw new Error('no timer runs');
    this.running.delete(id);
    return this.send({ type: timer.event as `xstate.after.${string}`, at: timer.dueAt + late });
  }

  /** As the store would give it back: only what is stored survives. */
  reload(): void {
    this.resume(JSON.parse(JSON.stringify(this.snapshot.value)), flatContext(this.#definition.toStored(this.context)));
  }

  /** Goes on from a stored state. */
  resume(value: Json, stored: JsonObject): void {
    const read = (): Context => this.#definition.fromStored(JSON.parse(JSON.stringify(stored)));
    this.snapshot = this.#definition.machine.resolveState({ value: value as never, context: read() as never });
    this.#compiled = this.#table.restore(asJsonb(value), read());
  }

  asSnapshot(): Snapshot<Context> {
    return this.snapshot as unknown as Snapshot<Context>;
  }

  /** The compiled table must give what XState gives. */
  #assertRuntimeAgrees(event: MachineEvent, next: AnyMachineSnapshot, { same, outputs, timers }: Step): void {
    const before = this.#compiled;
    const result = this.#table.transition(before, event);
    const { value, context, status } = result.snapshot;
    const understood = !same || outputs.length > 0 || timers.length > 0;
    deepStrictEqual(
      [result.snapshot === before, value, context, status, result.outputs, result.timers, result.understood],
      [same, next.value, next.context, next.status, outputs, timers, understood],
    );
    this.#compiled = result.snapshot;
    frozen([next.value, next.context, value, context]);
  }

  /** With an unchanged fixed part, no column may change that a commit of the live part alone does not write. */
  #assertFixedColumnsUnchanged(before: AnyMachineSnapshot, next: AnyMachineSnapshot): void {
    if (next.context.fixed !== before.context.fixed) return;
    const written = tableOf(this.#definition.kind).liveColumns;
    const columnsOf = (snapshot: AnyMachineSnapshot) => {
      const columns = Object.entries(this.#definition.columns(snapshot as unknown as Snapshot<Context>));
      return columns.filter(([name]) => !written.includes(name));
    };
    deepStrictEqual(columnsOf(next), columnsOf(before));
  }
}

/** The outputs and timers among the actions that XState's pure `transition` returns. Throws if there is any other action. */
export function effectsOf(actions: readonly { type: string; params?: unknown }[]): Omit<Step, 'same'> {
  const outputs: Output[] = [];
  const timers: TimerChange[] = [];
  for (const { type, params } of actions) {
    const { event, id, delay, sendId } = params as { event: Output; id?: string; delay?: number; sendId?: string };
    if (type === 'xstate.emit') outputs.push(event);
    else if (type === 'xstate.cancel') timers.push({ clear: String(sendId) });
    else if (type !== 'xstate.raise') throw new Error(`a side effect: ${type}`);
    else if (delay !== undefined) timers.push({ set: id ?? event.type, event: event.type, delay });
  }
  return { outputs, timers };
}

/** PostgreSQL keeps the keys of a `jsonb` object by length, then by bytes. */
function asJsonb(value: Json): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).sort(([a], [b]) => a.length - b.length || (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, below]) => [key, asJsonb(below)]));
}

/** What a machine was given, and what it gave, is nobody's to change. */
function frozen(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value) || ArrayBuffer.isView(value)) return;
  Object.freeze(value);
  for (const below of Object.values(value)) frozen(below);
}
