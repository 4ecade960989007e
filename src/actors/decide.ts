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

// The actor scope that XState requires, created once and without side effects. `_actorScope` of an empty actor has
// every member that a transition may use; only the action executor is replaced.
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
        throw new Error(`machine attempted a side effect: ${action.type}`);
    }
  },
};

const blankSnapshots = new WeakMap<MachineDefinition, AnyMachineSnapshot>();

/** The snapshot before the creating event. One per definition: snapshots are immutable. */
export function blankSnapshot(definition: MachineDefinition): AnyMachineSnapshot {
  let snapshot = blankSnapshots.get(definition);
  if (snapshot === undefined) {
    collected = { outputs: [], timers: [] };
    snapshot = definition.machine.getInitialSnapshot(inertScope, undefined) as AnyMachineSnapshot;
    blankSnapshots.set(definition, snapshot);
  }
  return snapshot;
}

/** Restores the snapshot of a stored state; entry actions do not run again. */
export function restoreSnapshot(definition: MachineDefinition, value: Json, context: object): AnyMachineSnapshot {
  const { machine } = definition;
  const ordered = inChartOrder(machine.root, value) as never;
  return shareConfiguration(machine, machine.resolveState({ value: ordered, context: context as never }));
}

/** Sorts regions in the chart's order, in which their actions run: `jsonb` orders keys by length. */
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

/** Computes the result of `event` on `snapshot`. Rethrows errors of the machine. */
export const decide = (
  definition: MachineDefinition,
  snapshot: AnyMachineSnapshot,
  event: MachineEvent,
): TransitionResult =>
  runCompiled(definition.machine, inertScope, snapshot, event) ?? transitionByXState(definition, snapshot, event);

/** The same by XState alone: exits and enters states, sets and clears timers, raises events. */
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
