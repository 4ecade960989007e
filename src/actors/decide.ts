import { type AnyActorScope, type AnyMachineSnapshot, type AnyStateNode, createEmptyActor } from 'xstate';
import { isObject } from '../domain/json/value.ts';
import type { Json } from '../domain/values.ts';
import type { MachineDefinition, MachineEvent } from '../machines/definition.ts';
import type { Output, TimerChange } from '../machines/outputs.ts';
import { runCompiled, shareConfiguration, type TransitionResult } from './compiled-machine.ts';

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

const blankSnapshots = new WeakMap<MachineDefinition, AnyMachineSnapshot>();

/** The snapshot an actor has before its creating event: one for all of a definition, since no transition changes it. */
export function blankSnapshot(definition: MachineDefinition): AnyMachineSnapshot {
  let snapshot = blankSnapshots.get(definition);
  if (snapshot === undefined) {
    collected = { outputs: [], timers: [] };
    snapshot = definition.machine.getInitialSnapshot(inertScope, undefined) as AnyMachineSnapshot;
    blankSnapshots.set(definition, snapshot);
  }
  return snapshot;
}

/** The snapshot of a stored state; entry actions do not run again. */
export function restoreSnapshot(definition: MachineDefinition, value: Json, context: object): AnyMachineSnapshot {
  const { machine } = definition;
  const ordered = inChartOrder(machine.root, value) as never;
  return shareConfiguration(machine, machine.resolveState({ value: ordered, context: context as never }));
}

/** The regions in the chart's order, which decides whose actions run first: `jsonb` orders keys by their length. */
function inChartOrder({ states }: AnyStateNode, value: Json): Json {
  if (!isObject(value)) return value;
  const order = Object.keys(states);
  const regions = Object.entries(value).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  return Object.fromEntries(
    regions.map(([key, child]) => {
      const node = states[key] as AnyStateNode | undefined;
      return [key, node ? inChartOrder(node, child) : child];
    }),
  );
}

/** What `event` would do to `snapshot`. Throws what the machine throws. */
export const decide = (
  definition: MachineDefinition,
  snapshot: AnyMachineSnapshot,
  event: MachineEvent,
): TransitionResult =>
  runCompiled(definition.machine, inertScope, snapshot, event) ?? transitionByXState(definition, snapshot, event);

/** The whole of XState: states are left and entered, timers set and cleared, events raised. */
export function transitionByXState(
  definition: MachineDefinition,
  snapshot: AnyMachineSnapshot,
  event: MachineEvent,
): TransitionResult {
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
