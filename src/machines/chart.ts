import { type AnyStateMachine, type AnyStateNode, getNextTransitions } from 'xstate';
import { camelCaseToWords, eventText } from '../domain/state-path.ts';
import type { Json } from '../domain/values.ts';

// Reads a machine's chart: its states, the events that each state handles, and their targets.

export const stateTypes = ['atomic', 'compound', 'parallel', 'final'] as const;

export interface ChartState {
  /** Path from the root. */
  path: readonly string[];
  description: string;
  type: (typeof stateTypes)[number];
  /** True for the default child of its parent state. */
  initial: boolean;
  final: boolean;
  /** The events that it handles itself, in addition to those of its ancestors. */
  events: string[];
}

/** All states, parents before children. */
export const statesOf = ({ root }: AnyStateMachine): ChartState[] =>
  below(root).map((node) => ({
    path: node.path,
    description: node.description ?? '',
    type: typeOf(node),
    initial: node.parent?.type === 'compound' && node.parent.initial.target[0] === node,
    final: node.type === 'final',
    events: eventsAt([node]),
  }));

export function typeOf({ type }: AnyStateNode): ChartState['type'] {
  return stateTypes.find((known) => known === type) ?? 'atomic';
}

export interface ChartTransition {
  /** Path from the root; empty for the root. */
  from: readonly string[];
  event: string;
  /** The guard as readable text. */
  when: string | null;
  /** Null if the state does not change. */
  to: readonly string[] | null;
  does: string[];
}

/** All transitions, parents before children, each state's in order of evaluation. */
export const transitionsOf = ({ root }: AnyStateMachine): ChartTransition[] =>
  [root, ...below(root)].flatMap((node) =>
    [...node.transitions.values()].flat().map(({ eventType, guard, target, actions }) => ({
      from: node.path,
      event: eventText(eventType),
      when: guard === undefined ? null : readableName(guard),
      to: target?.[0]?.path ?? null,
      does: actions.map(readableName).filter((text) => text !== ''),
    })),
  );

/**
 * A named action or guard as readable text with its parameters. Empty for XState's own actions (timers), which have no
 * name.
 */
export function readableName(named: unknown): string {
  if (typeof named === 'string') return camelCaseToWords(named);
  if (typeof named !== 'object' || named === null) return '';
  const { type, params = {} } = named as { type: string; params?: Record<string, string> };
  return [camelCaseToWords(type), ...Object.values(params)].join(' ');
}

/** All events that any state handles. */
export const eventsOf = ({ root }: AnyStateMachine): string[] => eventsAt([root, ...below(root)]).sort();

/** The events that the machine handles in state `value`. Throws if it has no such state. */
export const nextEvents = (machine: AnyStateMachine, value: Json): string[] => {
  const snapshot = machine.resolveState({ value: value as never, context: {} as never });
  const types = getNextTransitions(snapshot).map(({ eventType }) => eventType);
  return publicEvents(types).sort();
};

/** The states that a dotted path may refer to, from the root or from any level: `active`, `link.online`. */
export function findStates(machine: AnyStateMachine, text: string): (readonly string[])[] {
  const wanted = text.split('.');
  return statesOf(machine)
    .map(({ path }) => path)
    .filter(
      (path) =>
        path.length >= wanted.length && wanted.every((name, n) => path[path.length - wanted.length + n] === name),
    );
}

const below = (node: AnyStateNode): AnyStateNode[] =>
  Object.values(node.states).flatMap((child) => [child, ...below(child)]);

/** The event types that these nodes handle, without events that the machine raises for itself. */
function eventsAt(nodes: readonly AnyStateNode[]): string[] {
  return publicEvents(nodes.flatMap((node) => node.ownEvents as string[]));
}

/** Without what a machine raises for itself. */
const publicEvents = (types: readonly string[]): string[] => [
  ...new Set(types.filter((type) => !type.startsWith('self.')).map(eventText)),
];
