import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyStateNode,
  type EventObject,
  getMicrosteps,
  getNextTransitions,
  initialTransition,
} from 'xstate';
import { checkJson } from '../domain/json/strict.ts';
import { isObject } from '../domain/json/value.ts';
import type { Json } from '../domain/values.ts';
import { type Decision, decisionFunctionOf, predicateOf } from './decision.ts';
import type { ContextParts, MachineEvent, Snapshot } from './definition.ts';
import type { Output, TimerChange } from './outputs.ts';

/*
 * Compiled transition tables. XState stays the authority on what a chart means: when an event with these outcomes of the guards first
 * occurs in a configuration, it is asked which actions run in which order and which configuration follows. From then on the runtime
 * evaluates guards and calls the decision functions of the actions from the table, without XState's bookkeeping
 * (docs/decisions/0037).
 */

/** A snapshot of an actor; `configuration` is shared by all actors in the same states. */
export interface MachineSnapshot<Context extends ContextParts = ContextParts> extends Snapshot<Context> {
  readonly configuration: Configuration;
}

/** The effects of one event. Nothing has been executed or committed. */
export interface TransitionResult {
  snapshot: MachineSnapshot;
  outputs: readonly Output[];
  timers: readonly TimerChange[];
  /** False if the event changes nothing and has no effect. */
  understood: boolean;
}

/** The active states of all regions. */
export interface Configuration {
  readonly value: Json;
  readonly status: Snapshot['status'];
  /** The compiled rows, by event; null for an event that has no effect. */
  readonly rows: Map<string, Branch | Microstep | null>;
}

type DecisionFunction = (context: never, event: never, params: never) => Decision<ContextParts>;
type Predicate = (context: never, event: never, params: never) => boolean;
type Delay = number | ((args: { context: never; event: never }) => number);

/** An inner node of a row: which branch is taken depends on a guard. */
interface Branch {
  readonly guard: string;
  readonly holds: Predicate;
  readonly params: unknown;
  readonly yes: Branch | Microstep;
  /** Compiled when the guard first fails. */
  no: Branch | Microstep | Uncompiled;
}

/** A part of a row that was not needed yet: what happens if the guards have these results. */
interface Uncompiled {
  readonly from: Configuration;
  readonly event: string;
  readonly known: readonly EvaluatedGuard[];
}

/** A leaf of a row: the actions of the chosen transitions in XState's order, and the configuration that they lead to. */
interface Microstep {
  readonly actions: readonly Action[];
  readonly target: Configuration;
}

type Action =
  | { readonly name: string; readonly decide: DecisionFunction; readonly params: unknown }
  | { readonly set: string; readonly event: string; readonly delay: Delay }
  | { readonly clear: string };

const isBranch = (node: Branch | Microstep): node is Branch => 'guard' in node;
const isUncompiled = (node: Branch | Microstep | Uncompiled): node is Uncompiled => 'known' in node;

const NO_OUTPUTS: readonly Output[] = [];
const NO_TIMERS: readonly TimerChange[] = [];

/** The machine uses a feature that a transition table cannot express. Thrown when that part of it is compiled. */
export class NotCompilable extends Error {
  override name = 'NotCompilable';
}

/** A machine as a transition table, whose rows are compiled as they are needed. */
export class CompiledMachine {
  readonly machine: AnyStateMachine;
  /** The snapshot of an actor before its first event. Shared: no transition changes it. */
  readonly initial: MachineSnapshot;
  readonly #compiler: Compiler;

  /** Throws `NotCompilable`. */
  constructor(machine: AnyStateMachine) {
    this.machine = machine;
    this.#compiler = new Compiler(machine);
    const [{ value, context, error }] = initialTransition(machine);
    if (error !== undefined) throw error;
    this.initial = this.restore(value as Json, context as ContextParts);
  }

  /** The snapshot of a stored state; entry actions do not run. Throws if the chart has no such state. */
  restore(value: Json, context: ContextParts): MachineSnapshot {
    return snapshotOf(this.#compiler.configurationFor(value), context);
  }

  /** Applies `event`, then the events that it raises, without executing anything. Throws what a guard or an action throws. */
  transition(from: MachineSnapshot, event: MachineEvent): TransitionResult {
    let { configuration } = from;
    let { context }: { context: ContextParts } = from;
    let outputs = NO_OUTPUTS;
    let timers: TimerChange[] | null = null;
    let raised: EventObject[] | null = null;
    for (let next: EventObject | undefined = event; next !== undefined; next = raised?.shift()) {
      let node = this.#rowOf(configuration, next.type);
      if (node === null) continue;
      while (isBranch(node))
        node = node.holds(context as never, next as never, node.params as never) ? node.yes : this.#noOf(node);
      for (const action of node.actions) {
        if ('decide' in action) {
          const decision = action.decide(context as never, next as never, action.params as never);
          if (decision.changes) context = contextAfter(context, decision.changes);
          if (outputs.length === 0) outputs = decision.outputs;
          else if (decision.outputs.length > 0) outputs = outputs.concat(decision.outputs);
          if (decision.raised) raised = append(raised, decision.raised);
        } else if ('set' in action) {
          const { set, delay } = action;
          const ms = typeof delay === 'number' ? delay : delay({ context: context as never, event: next as never });
          timers = append<TimerChange>(timers, { set, event: action.event, delay: ms });
        } else timers = append<TimerChange>(timers, action);
      }
      configuration = node.target;
    }
    const isSame = configuration === from.configuration && context === from.context;
    return {
      snapshot: isSame ? from : snapshotOf(configuration, context),
      outputs,
      timers: timers ?? NO_TIMERS,
      understood: !isSame || outputs.length > 0 || timers !== null,
    };
  }

  /**
   * The whole table as text, one line for each leaf: state, event, guards, actions, next state. Compiles what is not
   * compiled yet. Throws `NotCompilable`.
   */
  toString(): string {
    const lines: string[] = [];
    const configurations = new Set([this.#compiler.initial]);
    for (const configuration of configurations) {
      const { value } = configuration;
      for (const event of this.#compiler.eventsOf(configuration)) {
        const add = (node: Branch | Microstep, guards: readonly string[]): void => {
          if (isBranch(node)) {
            const guard = node.guard + paramsText(node.params);
            add(node.yes, [...guards, guard]);
            add(this.#noOf(node), [...guards, `not ${guard}`]);
            return;
          }
          const when = guards.length === 0 ? '' : ` [${guards.join(', ')}]`;
          const does = node.actions.map(actionText).join(', ');
          const to = node.target === configuration ? '' : ` -> ${JSON.stringify(node.target.value)}`;
          lines.push(`${JSON.stringify(value)} ${event}${when}: ${does}${to}`);
          configurations.add(node.target);
        };
        const row = this.#rowOf(configuration, event);
        if (row !== null) add(row, []);
      }
    }
    return `${lines.join('\n')}\n`;
  }

  #rowOf(configuration: Configuration, event: string): Branch | Microstep | null {
    let row = configuration.rows.get(event);
    if (row === undefined) {
      row = this.#compiler.row(configuration, event);
      configuration.rows.set(event, row);
    }
    return row;
  }

  #noOf(branch: Branch): Branch | Microstep {
    if (isUncompiled(branch.no)) branch.no = this.#compiler.part(branch.no);
    return branch.no;
  }
}

const compiled = new WeakMap<AnyStateMachine, CompiledMachine>();

/** The table of a machine, shared by all its actors. Throws `NotCompilable`. */
export function compiledMachine(machine: AnyStateMachine): CompiledMachine {
  let found = compiled.get(machine);
  if (found === undefined) {
    found = new CompiledMachine(machine);
    compiled.set(machine, found);
  }
  return found;
}

const contextAfter = ({ fixed, live }: ContextParts, changes: Partial<ContextParts>): ContextParts => ({
  fixed: changes.fixed ?? fixed,
  live: changes.live ?? live,
});

const snapshotOf = (configuration: Configuration, context: ContextParts): MachineSnapshot => ({
  value: configuration.value,
  context,
  status: configuration.status,
  configuration,
});

function append<T>(list: T[] | null, item: T): T[] {
  if (list === null) return [item];
  list.push(item);
  return list;
}

const keyOf = (value: Json): string => JSON.stringify(value);
const paramsText = (params: unknown): string => (params === undefined ? '' : `(${JSON.stringify(params)})`);

function actionText(action: Action): string {
  if ('decide' in action) return action.name + paramsText(action.params);
  return 'set' in action ? `set ${action.set}` : `clear ${action.clear}`;
}

/** The regions in the order of the chart, which decides whose actions run first: `jsonb` orders keys by their length. */
function inChartOrder({ states }: AnyStateNode, value: Json): Json {
  if (!isObject(value)) return value;
  const order = Object.keys(states);
  const regions = Object.entries(value).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  return Object.fromEntries(
    regions.map(([key, below]) => {
      const node = states[key] as AnyStateNode | undefined;
      return [key, node ? inChartOrder(node, below) : below];
    }),
  );
}

/** A guard that XState evaluated on one path, and its scripted result. */
interface EvaluatedGuard {
  guard: string;
  params: unknown;
  result: boolean;
}

/**
 * Compiles rows of a table. XState runs a copy of the machine whose guards give scripted results, once for each combination of results
 * that occurs; nothing in the copy can read the context or the event.
 */
class Compiler {
  /** Before the events that entry actions raise. */
  readonly initial: Configuration;
  readonly #machine: AnyStateMachine;
  readonly #copy: AnyStateMachine;
  readonly #delays: readonly Delay[];
  /** By their values. */
  readonly #configurations = new Map<string, Configuration>();
  /** Results of guards on the current path. */
  #path: EvaluatedGuard[] = [];

  constructor(machine: AnyStateMachine) {
    this.#machine = machine;
    rejectUnsupported(machine.root);
    const { guards, delays } = machine.implementations;
    this.#delays = Object.values(delays) as Delay[];
    this.#copy = machine.provide({
      actions: Object.fromEntries(Object.keys(machine.implementations.actions).map((name) => [name, () => {}])),
      guards: Object.fromEntries(
        Object.entries(guards)
          .filter(([, guard]) => predicateOf(guard as object) !== undefined)
          .map(([name]) => [name, (_: unknown, params: unknown) => this.#resultOf(name, params)]),
      ),
      // A delay's position in the list stands for the delay: the real one may need the context.
      delays: Object.fromEntries(Object.keys(delays).map((name, index) => [name, -1 - index])),
    }) as AnyStateMachine;
    const [initial] = initialTransition(this.#copy);
    // Each run creates an actor that is not used, and with it the initial snapshot: three fifths of the work.
    this.#copy.getInitialSnapshot = () => initial;
    this.initial = this.#configurationOf(initial as AnyMachineSnapshot);
  }

  /** The configuration of a stored state. Throws if the chart has no such state. */
  configurationFor(value: Json): Configuration {
    const key = keyOf(inChartOrder(this.#machine.root, value));
    const found = this.#configurations.get(key) ?? this.#resolved(value);
    // XState completes a partial state.
    if (found === null || keyOf(found.value) !== key)
      throw new RangeError(`the chart has no state ${JSON.stringify(value)}`);
    return found;
  }

  /** The events that may have an effect, in XState's order. An actor that has ended handles none. */
  eventsOf({ status, value }: Configuration): Set<string> {
    if (status !== 'active') return new Set();
    return new Set(getNextTransitions(this.#snapshot(value)).map(({ eventType }) => eventType));
  }

  /** The row of an event as far as it is needed if all guards hold; null if the event has no effect. */
  row(from: Configuration, event: string): Branch | Microstep | null {
    if (!this.eventsOf(from).has(event)) return null;
    const row = this.part({ from, event, known: [] });
    return !isBranch(row) && row.actions.length === 0 && row.target === from ? null : row;
  }

  /** One run by XState finds a leaf, where every further guard holds, and the guards on the way to it. */
  part({ from, event, known }: Uncompiled): Branch | Microstep {
    this.#path = [...known];
    const [first] = this.#microsteps(this.#snapshot(from.value), event);
    const path = this.#path;
    let node: Branch | Microstep = this.#microstep(first as [AnyMachineSnapshot, object[]]);
    for (let i = path.length - 1; i >= known.length; i -= 1) {
      const { guard, params } = path[i] as EvaluatedGuard;
      const holds = predicateOf(this.#machine.implementations.guards[guard] as object) as Predicate;
      const no: Uncompiled = { from, event, known: [...path.slice(0, i), { guard, params, result: false }] };
      node = { guard, holds, params, yes: node, no };
    }
    return node;
  }

  #snapshot(value: Json): AnyMachineSnapshot {
    return this.#copy.resolveState({ value: value as never, context: unreadable as never });
  }

  /** Null if the chart has no such state. */
  #resolved(value: Json): Configuration | null {
    try {
      return this.#configurationOf(this.#snapshot(value));
    } catch {
      return null;
    }
  }

  #configurationOf(snapshot: AnyMachineSnapshot): Configuration {
    const value = inChartOrder(this.#machine.root, snapshot.value as Json);
    const key = keyOf(value);
    let found = this.#configurations.get(key);
    if (found === undefined) {
      found = { value, status: snapshot.status, rows: new Map() };
      this.#configurations.set(key, found);
    }
    return found;
  }

  #microsteps(from: AnyMachineSnapshot, type: string) {
    try {
      return getMicrosteps(this.#copy, from, unreadableEvent(type) as never);
    } catch (error) {
      throw error instanceof NotCompilable ? error : new NotCompilable((error as Error).message, { cause: error });
    }
  }

  /** The scripted result of a guard; one that is not in the script is added to it as the next to branch on. */
  #resultOf(guard: string, params: unknown): boolean {
    if (params !== undefined && !checkJson(params).ok)
      throw new NotCompilable(`a parameter of guard ${guard} is not JSON`);
    const paramsKey = JSON.stringify(params);
    const found = this.#path.find(
      (scripted) => scripted.guard === guard && JSON.stringify(scripted.params) === paramsKey,
    );
    if (found !== undefined) return found.result;
    this.#path.push({ guard, params, result: true });
    return true;
  }

  #microstep([reached, actions]: [AnyMachineSnapshot, object[]]): Microstep {
    if (reached.context !== unreadable) throw new NotCompilable('an assignment was not made by actionsFor');
    return {
      actions: actions.map((action) => this.#action(action as { type: string; params: unknown })),
      target: this.#configurationOf(reached),
    };
  }

  #action({ type, params }: { type: string; params: unknown }): Action {
    if (type === 'xstate.cancel') return { clear: (params as { sendId: string }).sendId };
    if (type === 'xstate.raise') {
      const { id, event, delay } = params as { id?: string; event: EventObject; delay?: number };
      if (id === undefined || delay === undefined) throw new NotCompilable('an event is raised without a named timer');
      return { set: id, event: event.type, delay: delay < 0 ? (this.#delays[-1 - delay] as Delay) : delay };
    }
    const decide = decisionFunctionOf((this.#machine.implementations.actions[type] ?? {}) as object);
    if (decide === undefined) throw new NotCompilable(`the action ${type} was not made by actionsFor`);
    return { name: type, decide: decide as DecisionFunction, params };
  }
}

/** Everything that the code of a guard, delay or parameter may do with an object to learn its members. */
const rejectReads = (what: string): ProxyHandler<object> => {
  const reject = (): never => {
    throw new NotCompilable(`a guard, delay or parameter outside of setup() reads ${what}`);
  };
  return { get: reject, has: reject, ownKeys: reject, getOwnPropertyDescriptor: reject };
};

/** Stands for a context while a machine is compiled: whatever reads it would have to be evaluated for each event. */
const unreadable = new Proxy({}, rejectReads('the context'));

const unreadableEvent = (type: string): EventObject => {
  const rejecting = rejectReads('the event');
  const get: ProxyHandler<object>['get'] = (target, name, receiver) =>
    name === 'type' ? type : rejecting.get?.(target, name, receiver);
  return new Proxy({ type }, { ...rejecting, get }) as EventObject;
};

function rejectUnsupported(node: AnyStateNode): void {
  const reject = (what: string): never => {
    throw new NotCompilable(`${node.id}: ${what} cannot be compiled`);
  };
  if ((node.always?.length ?? 0) > 0) reject('a transition without an event');
  if (node.invoke.length > 0) reject('an invocation');
  if (node.type === 'history') reject('a history state');
  for (const event of node.transitions.keys()) {
    if (event.includes('*')) reject('a wildcard');
    if (event.startsWith('xstate.done')) reject('a transition at the end of a state');
  }
  for (const child of Object.values(node.states)) rejectUnsupported(child as AnyStateNode);
}
