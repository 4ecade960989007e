import type { AnyActorScope, AnyMachineSnapshot, AnyStateMachine, EventObject } from 'xstate';
import { decisionFunctionOf } from '../machines/decision.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { Output, TimerChange } from '../machines/outputs.ts';
import {
  compileSelector,
  selectTransitions,
  type Transition,
  type TransitionSelector,
  unconditionalTransitions,
} from './transition-selector.ts';

/*
 * Compiled machines. For given transitions XState always does the same: it exits states, runs actions and enters states
 * in an order that depends only on the chart. XState executes each such microstep once while it is recorded; from then
 * on the recorded action functions are called directly, without XState's overhead. `transition-selector.ts` selects the
 * transitions by XState's rules.
 */

/** Result of an event as a value: no effect has run and no state has changed. */
export interface TransitionResult {
  snapshot: AnyMachineSnapshot;
  outputs: readonly Output[];
  timers: readonly TimerChange[];
  /** False if no current state of the machine handles the event. */
  understood: boolean;
}

type Delay = number | ((about: { context: object; event: EventObject }) => number);
type Action =
  | {
      decide: (
        context: never,
        event: never,
        params: never,
      ) => ReturnType<NonNullable<ReturnType<typeof decisionFunctionOf>>>;
      params: unknown;
    }
  | { set: string; event: string; delay: Delay }
  | { clear: string };

/** Properties of XState's built-in actions; dynamic values are functions. */
interface BuiltInAction {
  type: string;
  id: unknown;
  event: unknown;
  delay: string | Delay | undefined;
  sendId: unknown;
}

interface Microstep {
  actions: readonly Action[];
  target: Configuration;
}

/** A state configuration: the active states of all regions. Shared by all actors that are in it. */
interface Configuration {
  nodes: AnyMachineSnapshot['_nodes'];
  value: AnyMachineSnapshot['value'];
  tags: AnyMachineSnapshot['tags'];
  microsteps: MicrostepNode;
  /** Keyed by event type. */
  rows: Map<string, TransitionRow>;
}

/**
 * The transitions for one event type: `unconditional` if no guard decides, else those that `selector` finds; if both
 * are null, XState selects.
 */
interface TransitionRow {
  unconditional: MicrostepNode | null;
  selector: TransitionSelector | null;
}

/** A trie of microsteps, keyed by the sequence of selected transitions. */
interface MicrostepNode {
  /** Undefined until it is compiled; null if XState has to execute it each time. */
  microstep: Microstep | null | undefined;
  next: Map<object, MicrostepNode>;
}

type StateNode = AnyStateMachine['root'];

/** Compiled data of a machine: all its actions are decision functions, and XState raises no events but its timers. */
interface CompiledMachine {
  delays: ReadonlyMap<string, Delay>;
  configurations: Map<string, Configuration>;
}

const NOTHING: readonly never[] = [];

const compiledMachines = new WeakMap<AnyStateMachine, CompiledMachine | null>();
const configurationsByNodes = new WeakMap<object, Configuration>();

/** Runs an event on the compiled machine; null if XState has to execute the machine or this microstep. */
export function runCompiled(
  machine: AnyStateMachine,
  scope: AnyActorScope,
  from: AnyMachineSnapshot,
  externalEvent: MachineEvent,
): TransitionResult | null {
  const compiled = compiledOf(machine);
  if (compiled === null || !isActive(from)) return null;
  let outputs: readonly Output[] = NOTHING;
  let timers: TimerChange[] | null = null;
  let raised: EventObject[] | null = null;
  let snapshot = from;
  for (let event: EventObject | undefined = externalEvent; event !== undefined; event = raised?.shift()) {
    const configuration = configurationOf(compiled, snapshot);
    const node = microstepsFor(machine, configuration, snapshot, event);
    if (node === configuration.microsteps) continue;
    if (node.microstep === undefined) node.microstep = compileMicrostep({ machine, scope, compiled }, snapshot, event);
    const { microstep } = node;
    if (microstep === null) return null;
    let context = snapshot.context as object;
    for (const action of microstep.actions) {
      if ('decide' in action) {
        const decision = action.decide(context as never, event as never, action.params as never);
        if (decision.changes) context = { ...context, ...decision.changes };
        if (outputs.length === 0) outputs = decision.outputs;
        else if (decision.outputs.length > 0) outputs = outputs.concat(decision.outputs);
        if (decision.raised) raised = append(raised, decision.raised);
      } else if ('set' in action) {
        const { set, event: name, delay } = action;
        const delayMs = typeof delay === 'number' ? delay : delay({ context, event });
        timers = append(timers, { set, event: name, delay: delayMs });
      } else timers = append<TimerChange>(timers, action);
    }
    if (microstep.target !== configuration) {
      const { nodes, value, tags } = microstep.target;
      snapshot = { ...snapshot, context, value, tags, _nodes: nodes } as AnyMachineSnapshot;
    } else if (context !== snapshot.context) snapshot = { ...snapshot, context } as AnyMachineSnapshot;
  }
  const understood = snapshot !== from || outputs.length > 0 || timers !== null;
  return { snapshot, outputs, timers: timers ?? NOTHING, understood };
}

/** Creates the list on first use, because most events need none. */
function append<T>(list: T[] | null, one: T): T[] {
  if (list === null) return [one];
  list.push(one);
  return list;
}

const isActive = ({ status }: AnyMachineSnapshot): boolean => status === 'active';

/** The same snapshot with the shared configuration of its machine, to save memory. */
export function shareConfiguration(machine: AnyStateMachine, snapshot: AnyMachineSnapshot): AnyMachineSnapshot {
  const compiled = compiledOf(machine);
  if (compiled === null) return snapshot;
  const { nodes, value, tags } = configurationOf(compiled, snapshot);
  return { ...snapshot, value, tags, _nodes: nodes } as AnyMachineSnapshot;
}

function configurationOf(compiled: CompiledMachine, { _nodes: nodes, value, tags }: AnyMachineSnapshot): Configuration {
  const cached = configurationsByNodes.get(nodes);
  if (cached !== undefined) return cached;
  const key = JSON.stringify(value);
  let configuration = compiled.configurations.get(key);
  if (configuration === undefined) {
    configuration = { nodes, value, tags, microsteps: { microstep: undefined, next: new Map() }, rows: new Map() };
    compiled.configurations.set(key, configuration);
    configurationsByNodes.set(nodes, configuration);
  }
  return configuration;
}

/** The trie node of the transitions that `event` takes; the root node of the configuration if it takes none. */
function microstepsFor(
  machine: AnyStateMachine,
  configuration: Configuration,
  snapshot: AnyMachineSnapshot,
  event: EventObject,
): MicrostepNode {
  let row = configuration.rows.get(event.type);
  if (row === undefined) {
    const selector = compileSelector(machine, snapshot, event);
    const unconditional = selector && unconditionalTransitions(selector);
    row = { selector, unconditional: unconditional && microstepsAfter(configuration, unconditional) };
    configuration.rows.set(event.type, row);
  }
  return row.unconditional ?? microstepsAfter(configuration, transitionsFor(machine, row, snapshot, event));
}

function transitionsFor(
  machine: AnyStateMachine,
  { selector }: TransitionRow,
  snapshot: AnyMachineSnapshot,
  event: EventObject,
): readonly Transition[] {
  if (selector !== null) {
    try {
      return selectTransitions(selector, { context: snapshot.context, event });
    } catch {
      // XState evaluates the guard again and throws an error that names it.
    }
  }
  return machine.getTransitionData(snapshot, event);
}

function microstepsAfter(configuration: Configuration, chosen: readonly Transition[]): MicrostepNode {
  let { microsteps } = configuration;
  for (const transition of chosen) {
    let next = microsteps.next.get(transition);
    if (next === undefined) {
      next = { microstep: undefined, next: new Map() };
      microsteps.next.set(transition, next);
    }
    microsteps = next;
  }
  return microsteps;
}

/** Thrown after the first microstep: XState would continue without the events that are queued here. */
const microstepDone = new Error('microstep recorded');

/** Lets XState execute the first microstep for `event`, and records its actions and target. */
function compileMicrostep(
  { machine, scope, compiled }: { machine: AnyStateMachine; scope: AnyActorScope; compiled: CompiledMachine },
  snapshot: AnyMachineSnapshot,
  event: EventObject,
): Microstep | null {
  const actions: Action[] = [];
  let after: AnyMachineSnapshot | undefined;
  const recordingScope = {
    ...scope,
    system: {
      ...scope.system,
      _sendInspectionEvent(inspected: { type: string; snapshot: AnyMachineSnapshot }) {
        if (inspected.type !== '@xstate.microstep') return;
        after = inspected.snapshot;
        throw microstepDone;
      },
    },
    actionExecutor(action: { type: string; params?: unknown }) {
      const params = action.params as { id: string; sendId: string; event: EventObject };
      if (action.type === 'xstate.cancel') actions.push({ clear: params.sendId });
      else if (action.type === 'xstate.raise') {
        actions.push({ set: params.id, event: params.event.type, delay: compiled.delays.get(params.id) as Delay });
      }
    },
    decided(decide: never, params: unknown) {
      actions.push({ decide, params });
    },
  } as unknown as AnyActorScope;
  try {
    machine.transition(snapshot, event, recordingScope);
  } catch (error) {
    if (error !== microstepDone) throw error;
  }
  const reached = after as AnyMachineSnapshot | undefined;
  return reached === undefined || !isActive(reached) ? null : { actions, target: configurationOf(compiled, reached) };
}

function compiledOf(machine: AnyStateMachine): CompiledMachine | null {
  let compiled = compiledMachines.get(machine);
  if (compiled === undefined) {
    const delays = new Map<string, Delay>();
    compiled = isCompilable(machine, machine.root, delays) ? { delays, configurations: new Map() } : null;
    compiledMachines.set(machine, compiled);
  }
  return compiled;
}

/** Collects the timers of `node` and its descendants; false if one of them uses a feature that cannot be compiled. */
function isCompilable(machine: AnyStateMachine, node: StateNode, delays: Map<string, Delay>): boolean {
  const { actions, delays: named } = machine.implementations;
  const isCompilableAction = (action: unknown): boolean => {
    if (typeof action === 'function') {
      const { type, id, event, delay, sendId } = action as unknown as BuiltInAction;
      if (type === 'xstate.cancel') return typeof sendId === 'string';
      if (type !== 'xstate.raise') return decisionFunctionOf(action) !== undefined;
      const spec = typeof delay === 'string' ? named[delay] : delay;
      const isTimer = spec !== undefined && typeof id === 'string' && typeof event === 'object';
      if (!isTimer || (delays.get(id) ?? spec) !== spec) return false;
      delays.set(id, spec as Delay);
      return true;
    }
    const { type, params } =
      typeof action === 'string' ? { type: action, params: null } : (action as { type: string; params?: unknown });
    const implementation = actions[type] as object | undefined;
    return (
      implementation !== undefined && decisionFunctionOf(implementation) !== undefined && typeof params !== 'function'
    );
  };
  const transitions = [...node.transitions.values()].flat();
  return (
    (node.always?.length ?? 0) === 0 &&
    node.invoke.length === 0 &&
    node.type !== 'history' &&
    [...node.transitions.keys()].every((event) => !event.includes('*') && !event.startsWith('xstate.done')) &&
    [...node.entry, ...node.exit, ...transitions.flatMap((one) => one.actions), ...(node.initial?.actions ?? [])].every(
      isCompilableAction,
    ) &&
    Object.values(node.states).every((inner) => isCompilable(machine, inner as StateNode, delays))
  );
}
