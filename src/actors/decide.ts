import { type AnyActorScope, type AnyMachineSnapshot, type AnyStateMachine, createEmptyActor } from 'xstate';
import type { Json } from '../domain/values.ts';
import { functionOf } from '../machines/decision.ts';
import type { MachineDefinition, MachineEvent } from '../machines/definition.ts';
import type { Output, TimerChange } from '../machines/outputs.ts';

/** What an event would do. Nothing has happened yet: no effect ran, no state was adopted. */
export interface Decided {
  snapshot: AnyMachineSnapshot;
  outputs: Output[];
  timers: TimerChange[];
  /** False where no state of the machine takes the event. */
  understood: boolean;
}

interface Collected {
  outputs: Output[];
  timers: TimerChange[];
}

let collected: Collected = { outputs: [], timers: [] };

// The scope XState asks for, made once: nothing in it acts. Its own `_actorScope` has every member that a transition may
// touch; only the executor of actions is ours.
const inertScope: AnyActorScope = {
  ...(createEmptyActor() as unknown as { _actorScope: AnyActorScope })._actorScope,
  actionExecutor(action) {
    const params = action.params as Record<string, unknown> | undefined;
    switch (action.type) {
      case 'xstate.emit':
        collected.outputs.push(params?.event as Output);
        break;
      case 'xstate.raise': {
        if (params?.delay === undefined) break;
        const event = (params.event as { type: string }).type;
        collected.timers.push({ set: String(params.id ?? event), event, delay: Number(params.delay) });
        break;
      }
      case 'xstate.cancel':
        collected.timers.push({ clear: String(params?.sendId) });
        break;
      default:
        throw new Error(`a machine tried a side effect: ${action.type}`);
    }
  },
};

const blanks = new WeakMap<MachineDefinition, AnyMachineSnapshot>();

/** The snapshot an actor has before its creating event: one for all of a definition, since no transition changes it. */
export function blank(definition: MachineDefinition): AnyMachineSnapshot {
  let snapshot = blanks.get(definition);
  if (snapshot === undefined) {
    collected = { outputs: [], timers: [] };
    snapshot = definition.machine.getInitialSnapshot(inertScope, undefined) as AnyMachineSnapshot;
    blanks.set(definition, snapshot);
  }
  return snapshot;
}

/** The snapshot of a stored state; entry actions do not run again. */
export function restore(definition: MachineDefinition, value: Json, context: object): AnyMachineSnapshot {
  return definition.machine.resolveState({ value: value as never, context: context as never });
}

/**
 * What `event` would do to `snapshot`. Throws what the machine throws. This is the only file that knows XState's action
 * vocabulary.
 */
export function decide(definition: MachineDefinition, snapshot: AnyMachineSnapshot, event: MachineEvent): Decided {
  const stayed = stay(definition, snapshot, event);
  if (stayed === null) return transition(definition, snapshot, event);
  if (stayed.raised === null) return stayed;
  const then = decide(definition, stayed.snapshot, stayed.raised);
  const outputs = stayed.outputs.concat(then.outputs);
  const understood = stayed.understood || then.understood;
  return { snapshot: then.snapshot, outputs, timers: then.timers, understood };
}

/** The whole of XState: states are left and entered, timers set and cleared, events raised. */
export function transition(definition: MachineDefinition, snapshot: AnyMachineSnapshot, event: MachineEvent): Decided {
  const own: Collected = { outputs: [], timers: [] };
  collected = own;
  const next = definition.machine.transition(snapshot, event, inertScope) as AnyMachineSnapshot;
  if (next.status === 'error') throw next.error;
  return {
    snapshot: next,
    outputs: own.outputs,
    timers: own.timers,
    understood: next !== snapshot || own.outputs.length > 0 || own.timers.length > 0,
  };
}

/** What a step without a change of state decided, and the event that the machine has for itself now. */
interface Stayed extends Decided {
  raised: MachineEvent | null;
}

/**
 * The same for an event that leaves every state as it is, as most of what a device says does: XState chooses the
 * transitions, and their functions are called without the bookkeeping of a step. Null where a state changes, where an
 * action is more than a function, or where the machine has transitions without events.
 */
function stay(definition: MachineDefinition, snapshot: AnyMachineSnapshot, event: MachineEvent): Stayed | null {
  const { machine } = definition;
  if (snapshot.status !== 'active' || hasEventless(machine)) return null;
  const chosen = machine.getTransitionData(snapshot, event);
  if (chosen.length === 0) return null;
  let context = snapshot.context as object;
  const outputs: Output[] = [];
  let raised: MachineEvent | null = null;
  for (const { target, actions } of chosen) {
    if (target !== undefined) return null;
    for (const name of actions) {
      const action: unknown = typeof name === 'string' ? machine.implementations.actions[name] : null;
      const decision = action === null || action === undefined ? undefined : functionOf(action);
      if (decision === undefined) return null;
      const decided = decision(context as never, event as never);
      if (decided.raised) {
        if (raised !== null) return null; // what the first one raises in its turn would come after the second
        raised = decided.raised as MachineEvent;
      }
      if (decided.changes) context = { ...context, ...decided.changes };
      outputs.push(...decided.outputs);
    }
  }
  const next = context === snapshot.context ? snapshot : { ...snapshot, context };
  return { snapshot: next, outputs, timers: [], understood: next !== snapshot || outputs.length > 0, raised };
}

const eventless = new WeakMap<AnyStateMachine, boolean>();

function hasEventless(machine: AnyStateMachine): boolean {
  let known = eventless.get(machine);
  if (known === undefined) {
    known = mayMoveByItself(machine.root);
    eventless.set(machine, known);
  }
  return known;
}

const mayMoveByItself = (node: AnyStateMachine['root']): boolean =>
  (node.always?.length ?? 0) > 0 || Object.values(node.states).some((inner) => mayMoveByItself(inner));
