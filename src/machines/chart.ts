import type { AnyStateMachine, AnyStateNode } from 'xstate';
import { eventText } from '../domain/state-path.ts';
import type { Json } from '../domain/values.ts';

// What a machine's chart tells of itself: its states, and the events that each of them takes.

export interface ChartState {
  /** From the root. */
  path: readonly string[];
  description: string;
  final: boolean;
  /** What it takes besides what the states around it take. */
  events: string[];
}

/** All states, outer ones first. */
export const statesOf = ({ root }: AnyStateMachine): ChartState[] =>
  below(root).map((node) => ({
    path: node.path,
    description: node.description ?? '',
    final: node.type === 'final',
    events: eventsAt([node]),
  }));

/** Every event that some state takes. */
export const eventsOf = ({ root }: AnyStateMachine): string[] => eventsAt([root, ...below(root)]).sort();

/** What the machine takes where its state is `value`. Throws where it has no such state. */
export const nextEvents = (machine: AnyStateMachine, value: Json): string[] => {
  const { _nodes: nodes } = machine.resolveState({ value: value as never, context: {} as never });
  return eventsAt(nodes).sort();
};

/** The states that `text` may mean: a dotted path, from the root or from further in, as `active`, or `link.online`. */
export function statesNamed(machine: AnyStateMachine, text: string): (readonly string[])[] {
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
