import type { AnyStateMachine, AnyStateNode } from 'xstate';
import { camelCaseToWords, eventText } from '../domain/state-path.ts';
import type { Json } from '../domain/values.ts';

// What a machine's chart tells of itself: its states, the events that each of them takes, and where they lead.

export const stateTypes = ['atomic', 'compound', 'parallel', 'final'] as const;

export interface ChartState {
  /** From the root. */
  path: readonly string[];
  description: string;
  type: (typeof stateTypes)[number];
  /** Entered where the state around it is, and nothing says else. */
  initial: boolean;
  final: boolean;
  /** What it takes besides what the states around it take. */
  events: string[];
}

/** All states, outer ones first. */
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
  /** Paths from the root; the root's own is empty. */
  from: readonly string[];
  event: string;
  /** Its condition in words. */
  when: string | null;
  /** Null where it leaves the state as it is. */
  to: readonly string[] | null;
  does: string[];
}

/** All transitions, outer states first, each state's in the order in which they are looked at. */
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

/** A named action or guard in words, with its parameters; what XState adds itself (timers) has no name and is left out. */
export function readableName(named: unknown): string {
  if (typeof named === 'string') return camelCaseToWords(named);
  if (typeof named !== 'object' || named === null) return '';
  const { type, params = {} } = named as { type: string; params?: Record<string, string> };
  return [camelCaseToWords(type), ...Object.values(params)].join(' ');
}

/** Every event that some state takes. */
export const eventsOf = ({ root }: AnyStateMachine): string[] => eventsAt([root, ...below(root)]).sort();

/** What the machine takes where its state is `value`. Throws where it has no such state. */
export const nextEvents = (machine: AnyStateMachine, value: Json): string[] => {
  const { _nodes: nodes } = machine.resolveState({ value: value as never, context: {} as never });
  return eventsAt(nodes).sort();
};

/** The states that `text` may mean: a dotted path, from the root or from further in, as `active`, or `link.online`. */
export function findStates(machine: AnyStateMachine, text: string): (readonly string[])[] {
  const wanted = text.split('.');
  const meant = statesOf(machine)
    .map(({ path }) => path)
    .filter(
      (path) =>
        path.length >= wanted.length && wanted.every((name, n) => path[path.length - wanted.length + n] === name),
    );
  return meant;
}

const below = (node: AnyStateNode): AnyStateNode[] =>
  Object.values(node.states).flatMap((child) => [child, ...below(child)]);

/** What a machine raises for itself is no event that anybody sends. */
function eventsAt(nodes: readonly AnyStateNode[]): string[] {
  const types = nodes.flatMap((node) => node.ownEvents as string[]).filter((type) => !type.startsWith('self.'));
  return [...new Set(types.map(eventText))];
}
