import type { AnyStateNode } from 'xstate';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import { fc } from '../support/properties.ts';

/** The innermost states of a chart, such as `lifecycle.written.dispatched`. */
export function declaredStates(definition: MachineDefinition): string[] {
  const leaves = (node: AnyStateNode): AnyStateNode[] => {
    const below = Object.values(node.states);
    return below.length === 0 ? [node] : below.flatMap(leaves);
  };
  return leaves(definition.machine.root).map((node) => node.path.join('.'));
}

/** The innermost active states of a state value. */
export function statesIn(value: Json, path: readonly string[] = []): string[] {
  if (typeof value === 'string') return [[...path, value].join('.')];
  return Object.entries(value as JsonObject).flatMap(([key, below]) => statesIn(below, [...path, key]));
}

const BATCH = 50;
/** Chosen so that the first few hundred walks of each machine take all transitions. */
const FIRST_SEED = 10_000;

/** Runs samples of `walks`, the same each time, until `covered` returns true or `most` walks have run. */
export function walkUntil<T>(
  walks: fc.Arbitrary<T>,
  most: number,
  go: (walk: T) => void,
  covered: () => boolean,
): void {
  for (let taken = 0; taken < most && !covered(); taken += BATCH)
    for (const walk of fc.sample(walks, { numRuns: BATCH, seed: FIRST_SEED + taken })) go(walk);
}

/** The states of a chart that were not reached in `most` walks; `go` reports the states that it reached. */
export function unreached<T>(
  definition: MachineDefinition,
  { walks, most, go }: { walks: fc.Arbitrary<T>; most: number; go(walk: T, saw: (value: Json) => void): void },
  start: Json,
): string[] {
  const left = new Set(declaredStates(definition));
  const saw = (value: Json): void => {
    for (const state of statesIn(value)) left.delete(state);
  };
  saw(start);
  walkUntil(
    walks,
    most,
    (walk) => go(walk, saw),
    () => left.size === 0,
  );
  return [...left];
}

/**
 * The transitions of a chart that were not taken in `most` walks, such as `lifecycle.queued: cancel 0`. Pass the number
 * of unreachable transitions as `never`, so that the search does not continue for them.
 */
export function untaken<T>(
  { machine }: Pick<MachineDefinition, 'machine'>,
  { walks, most, go, never = 0 }: { walks: fc.Arbitrary<T>; most: number; go(walk: T): void; never?: number },
): string[] {
  const within = (node: AnyStateNode): AnyStateNode[] => [node, ...Object.values(node.states).flatMap(within)];
  const left = new Map<unknown, string>();
  for (const node of within(machine.root))
    for (const [event, ways] of node.transitions)
      for (const [n, way] of ways.entries()) left.set(way, `${node.path.join('.')}: ${event} ${n}`);
  const choose = machine.getTransitionData;
  machine.getTransitionData = (...given) => {
    const chosen = choose.apply(machine, given);
    for (const way of chosen ?? []) left.delete(way);
    return chosen;
  };
  walkUntil(walks, most, go, () => left.size <= never);
  machine.getTransitionData = choose;
  return [...left.values()];
}
