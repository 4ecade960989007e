import { deepStrictEqual } from 'node:assert';
import { type AnyActorScope, type AnyMachineSnapshot, createEmptyActor } from 'xstate';
import { decide } from '../../src/actors/decide.ts';
import type { MachineDefinition, MachineEvent, Snapshot } from '../../src/machines/definition.ts';
import type { Output, TimerChange } from '../../src/machines/outputs.ts';

/** What one event did. `timers` are in the order they were set and cleared. */
export interface Step {
  same: boolean;
  outputs: Output[];
  timers: TimerChange[];
}

/** Drives a machine the way the runtime does, without the runtime: decide, keep, remember the timers that run. */
export class Driven<Context, Event extends MachineEvent = MachineEvent> {
  snapshot: AnyMachineSnapshot;
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
    this.outputs = [];
    this.timers = [];
    const next = this.definition.machine.transition(before, event, this.scope) as AnyMachineSnapshot;
    if (next.status === 'error') throw next.error;
    this.agreesWithRuntime(before, event, next);
    for (const change of this.timers) {
      if ('clear' in change) this.running.delete(change.clear);
      else this.running.set(change.set, { event: change.event, dueAt: event.at + change.delay });
    }
    this.snapshot = next;
    return { same: next === before, outputs: this.outputs, timers: this.timers };
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
    const stored = JSON.parse(JSON.stringify(this.definition.toStored(this.context)));
    const value = JSON.parse(JSON.stringify(this.snapshot.value));
    this.snapshot = this.definition.machine.resolveState({
      value,
      context: this.definition.fromStored(stored) as never,
    });
  }

  asSnapshot(): Snapshot<Context> {
    return this.snapshot as unknown as Snapshot<Context>;
  }

  /** The runtime calls an action's function itself where no state is left: nothing may come out differently. */
  private agreesWithRuntime(before: AnyMachineSnapshot, event: MachineEvent, next: AnyMachineSnapshot): void {
    const decided = decide(this.definition as unknown as MachineDefinition, before, event);
    deepStrictEqual(
      [decided.snapshot === before, decided.snapshot.value, decided.snapshot.context, decided.outputs, decided.timers],
      [next === before, next.value, next.context, this.outputs, this.timers],
    );
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
