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
 * Compiled transition tables. XState stays the authority on what a chart means: it is asked once, for each configuration, event and
 * outcome of the guards, which actions run in which order and which configuration follows. The runtime then evaluates guards and
 * calls the decision functions of the actions from the table, without XState's bookkeeping (docs/decisions/0037).
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

/** The active states of all regions, with the table row of each event that they handle. */
export interface Configuration {
  readonly value: Json;
  readonly status: Snapshot['status'];
  readonly rows: ReadonlyMap<string, Branch | Microstep>;
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
  readonly no: Branch | Microstep;
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

const NO_OUTPUTS: readonly Output[] = [];
const NO_TIMERS: readonly TimerChange[] = [];

/** The machine uses a feature that a transition table cannot express. Thrown when the machine is compiled. */
export class NotCompilable extends Error {
  override name = 'NotCompilable';
}

/** A machine as a transition table. */
export class CompiledMachine {
  readonly machine: AnyStateMachine;
  /** The snapshot of an actor before its first event. Shared: no transition changes it. */
  readonly initial: MachineSnapshot;
  /** By their values, as they are restored. */
  readonly #configurations: ReadonlyMap<string, Configuration>;

  /** Throws `NotCompilable`. */
  constructor(machine: AnyStateMachine) {
    this.machine = machine;
    this.#configurations = new Compiler(machine).compile();
    const [{ value, context, error }] = initialTransition(machine);
    if (error !== undefined) throw error;
    this.initial = this.restore(value as Json, context as ContextParts);
  }

  /** The snapshot of a stored state; entry actions do not run. Throws if the chart has no such state. */
  restore(value: Json, context: ContextParts): MachineSnapshot {
    const configuration = this.#configurations.get(keyOf(inChartOrder(this.machine.root, value)));
    if (configuration === undefined) throw new RangeError(`the chart has no state ${JSON.stringify(value)}`);
    return snapshotOf(configuration, context);
  }

  /** Applies `event`, then the events that it raises, without executing anything. Throws what a guard or an action throws. */
  transition(from: MachineSnapshot, event: MachineEvent): TransitionResult {
    let { configuration } = from;
    let { context }: { context: ContextParts } = from;
    let outputs = NO_OUTPUTS;
    let timers: TimerChange[] | null = null;
    let raised: EventObject[] | null = null;
    for (let next: EventObject | undefined = event; next !== undefined; next = raised?.shift()) {
      let node = configuration.rows.get(next.type);
      if (node === undefined) continue;
      while (isBranch(node))
        node = node.holds(context as never, next as never, node.params as never) ? node.yes : node.no;
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

  /** The table as text, one line for each leaf: state, event, guards, actions, next state. */
  toString(): string {
    const lines: string[] = [];
    for (const { value, rows } of this.#configurations.values()) {
      for (const [event, row] of rows) {
        const add = (node: Branch | Microstep, guards: readonly string[]): void => {
          if (isBranch(node)) {
            const guard = node.guard + paramsText(node.params);
            add(node.yes, [...guards, guard]);
            add(node.no, [...guards, `not ${guard}`]);
            return;
          }
          const when = guards.length === 0 ? '' : ` [${guards.join(', ')}]`;
          const does = node.actions.map(actionText).join(', ');
          const to = node.target.value === value ? '' : ` -> ${JSON.stringify(node.target.value)}`;
          lines.push(`${JSON.stringify(value)} ${event}${when}: ${does}${to}`);
        };
        add(row, []);
      }
    }
    return `${lines.join('\n')}\n`;
  }
}

const compiled = new WeakMap<AnyStateMachine, CompiledMachine>();

/** The table of a machine, compiled once. Throws `NotCompilable`. */
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

interface MutableConfiguration extends Configuration {
  readonly rows: Map<string, Branch | Microstep>;
}

/**
 * Finds all configurations that the initial one can lead to, and compiles the row of each event. XState runs a copy of the machine whose
 * guards give scripted results, once for each combination of results that it asks for; nothing in the copy can read the context or the event.
 */
class Compiler {
  readonly #machine: AnyStateMachine;
  readonly #copy: AnyStateMachine;
  readonly #delays: readonly Delay[];
  readonly #configurations = new Map<string, MutableConfiguration>();
  readonly #queue: MutableConfiguration[] = [];
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
  }

  compile(): ReadonlyMap<string, Configuration> {
    const [initial] = initialTransition(this.#copy);
    // Each run creates an actor that is not used, and with it the initial snapshot: three fifths of the work.
    this.#copy.getInitialSnapshot = () => initial;
    this.#configurationOf(initial as AnyMachineSnapshot);
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) this.#compileRows(next);
    return this.#configurations;
  }

  #configurationOf({ value, status }: AnyMachineSnapshot): MutableConfiguration {
    const key = keyOf(value as Json);
    let found = this.#configurations.get(key);
    if (found === undefined) {
      found = { value: value as Json, status, rows: new Map() };
      this.#configurations.set(key, found);
      this.#queue.push(found);
    }
    return found;
  }

  /** An actor that has ended handles no event. */
  #compileRows(configuration: MutableConfiguration): void {
    if (configuration.status !== 'active') return;
    const from = this.#copy.resolveState({ value: configuration.value as never, context: unreadable as never });
    for (const { eventType } of getNextTransitions(from)) {
      if (configuration.rows.has(eventType)) continue;
      const row = this.#compileRow(from, eventType, []);
      const isNoOp = !isBranch(row) && row.actions.length === 0 && row.target === configuration;
      if (!isNoOp) configuration.rows.set(eventType, row);
    }
  }

  /**
   * The row where the guards of `known` have those results. One run by XState finds a leaf, where every further guard
   * holds, and the guards on the way to it; each of them that does not hold leads to a row of its own.
   */
  #compileRow(from: AnyMachineSnapshot, type: string, known: readonly EvaluatedGuard[]): Branch | Microstep {
    this.#path = [...known];
    const [first] = this.#microsteps(from, type);
    const path = this.#path;
    let row: Branch | Microstep = this.#microstep(first as [AnyMachineSnapshot, object[]]);
    for (let i = path.length - 1; i >= known.length; i -= 1) {
      const { guard, params } = path[i] as EvaluatedGuard;
      const holds = predicateOf(this.#machine.implementations.guards[guard] as object) as Predicate;
      const no = this.#compileRow(from, type, [...path.slice(0, i), { guard, params, result: false }]);
      row = { guard, holds, params, yes: row, no };
    }
    return row;
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
