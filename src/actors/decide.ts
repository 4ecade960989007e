import { type AnyActorScope, type AnyMachineSnapshot, createEmptyActor } from 'xstate';
import type { Json } from '../domain/values.ts';
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

/** The snapshot an actor has before its creating event. */
export function blank(definition: MachineDefinition): AnyMachineSnapshot {
  collected = { outputs: [], timers: [] };
  return definition.machine.getInitialSnapshot(inertScope, undefined);
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
