import { type AnyMachineSnapshot, type AnyStateMachine, type AnyStateNode, type EventObject, stateIn } from 'xstate';

/*
 * Selects transitions by XState's rules: innermost states first, in each state the first transition whose guard holds,
 * and a parent state only if none of its children handles the event. Candidate transitions depend only on the
 * configuration and the event type, so they are computed once; only the guards are evaluated for each event.
 */

export type Transition = ReturnType<AnyStateMachine['getTransitionData']>[number];

type Guard = (about: GuardArgs, params: unknown) => boolean;

interface Candidate {
  transition: Transition;
  /** Null if the transition has no guard. */
  guard: Guard | null;
  params: unknown;
}

/** The candidates of a state in document order; they apply if none of its children takes the event. */
export interface TransitionSelector {
  children: readonly TransitionSelector[];
  candidates: readonly Candidate[];
}

/** Compiles the selector for the configuration of `snapshot` and the type of `event`; null if XState has to select. */
export function compileSelector(
  machine: AnyStateMachine,
  snapshot: AnyMachineSnapshot,
  event: EventObject,
): TransitionSelector | null {
  const compileNode = (node: AnyStateNode, value: AnyMachineSnapshot['value']): TransitionSelector | null => {
    const regions = typeof value === 'string' ? { [value]: {} } : value;
    const children: TransitionSelector[] = [];
    for (const [name, childValue] of Object.entries(regions)) {
      const region = node.states[name];
      const selector = region && childValue !== undefined ? compileNode(region, childValue) : null;
      if (selector === null) return null;
      children.push(selector);
    }
    const candidates = findCandidates(machine, node.transitions.get(event.type) ?? [], snapshot, event);
    return candidates && { children, candidates };
  };
  return compileNode(machine.root, snapshot.value);
}

interface GuardArgs {
  context: object;
  event: EventObject;
}

/** The transitions that the event takes. Rethrows errors of guards. */
export function selectTransitions(selector: TransitionSelector, args: GuardArgs): Transition[] {
  const chosen: Transition[] = [];
  collectTransitions(selector, args, chosen);
  return chosen;
}

function collectTransitions({ children, candidates }: TransitionSelector, args: GuardArgs, chosen: Transition[]): void {
  const before = chosen.length;
  for (const selector of children) collectTransitions(selector, args, chosen);
  if (chosen.length > before) return;
  for (const { transition, guard, params } of candidates) {
    if (guard !== null && !guard(args, params)) continue;
    chosen.push(transition);
    return;
  }
}

/** The selected transitions if no guard decides; null if they depend on guards. */
export function unconditionalTransitions({ children, candidates }: TransitionSelector): Transition[] | null {
  const chosen: Transition[] = [];
  for (const selector of children) {
    const unconditional = unconditionalTransitions(selector);
    if (unconditional === null) return null;
    chosen.push(...unconditional);
  }
  const [first] = candidates;
  if (chosen.length > 0 || first === undefined) return chosen;
  return first.guard === null ? [first.transition] : null;
}

/** The candidates, up to the first that always holds, without those whose `stateIn` guard fails here. */
function findCandidates(
  machine: AnyStateMachine,
  transitions: readonly Transition[],
  snapshot: AnyMachineSnapshot,
  event: EventObject,
): Candidate[] | null {
  const found: Candidate[] = [];
  for (const transition of transitions) {
    const args = resolveGuard(machine, transition.guard);
    if (args === null) return null;
    const { guard, stateCheck, params } = args;
    if (stateCheck && !stateCheck(snapshot, { context: snapshot.context, event }, guard)) continue;
    found.push({ transition, guard: stateCheck ? null : guard, params });
    if (stateCheck || guard === null) break;
  }
  return found;
}

/** XState's built-in `stateIn` guard, which depends only on the configuration. */
type StateInCheck = (snapshot: AnyMachineSnapshot, about: object, guard: unknown) => boolean;
const checkOf = (guard: object | null): unknown => (guard !== null && 'check' in guard ? guard.check : undefined);
const stateInCheck = checkOf(stateIn({}));

/** Null if XState has to evaluate the guard. */
function resolveGuard(
  { implementations }: AnyStateMachine,
  reference: unknown,
): { guard: Guard | null; stateCheck: StateInCheck | null; params: unknown } | null {
  if (reference === undefined) return { guard: null, stateCheck: null, params: undefined };
  const { type, params } =
    typeof reference === 'string'
      ? { type: reference, params: undefined }
      : (reference as { type: string; params?: unknown });
  const guard =
    typeof reference === 'function' ? (reference as Guard) : (implementations.guards[type] as Guard | undefined);
  if (typeof guard !== 'function' || typeof params === 'function') return null;
  const check = checkOf(guard);
  if (check !== undefined && check !== stateInCheck) return null;
  return { guard, stateCheck: (check as StateInCheck | undefined) ?? null, params };
}
