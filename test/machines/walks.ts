import { vi } from 'vitest';
import type { AnyStateNode } from 'xstate';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';

/** The innermost states of a chart: `lifecycle.written.dispatched`. */
export function declaredStates(definition: MachineDefinition): string[] {
  const leaves = (node: AnyStateNode): AnyStateNode[] => {
    const below = Object.values(node.states);
    return below.length === 0 ? [node] : below.flatMap(leaves);
  };
  return leaves(definition.machine.root).map((node) => node.path.join('.'));
}

/** The innermost states that a value stands in. */
export function statesIn(value: Json, path: readonly string[] = []): string[] {
  if (typeof value === 'string') return [[...path, value].join('.')];
  return Object.entries(value as JsonObject).flatMap(([key, below]) => statesIn(below, [...path, key]));
}

/** The transitions of a chart that nothing took in `walk`, as `lifecycle.queued: cancel 0`. */
export function untaken({ machine }: Pick<MachineDefinition, 'machine'>, walk: () => void): string[] {
  const within = (node: AnyStateNode): AnyStateNode[] => [node, ...Object.values(node.states).flatMap(within)];
  const all = within(machine.root).flatMap((node) =>
    [...node.transitions].flatMap(([event, ways]) =>
      ways.map((way, n) => ({ way, name: `${node.path.join('.')}: ${event} ${n}` })),
    ),
  );
  const chosen = vi.spyOn(machine, 'getTransitionData');
  walk();
  const taken = new Set(chosen.mock.results.flatMap(({ value }) => value));
  chosen.mockRestore();
  return all.filter(({ way }) => !taken.has(way)).map(({ name }) => name);
}
