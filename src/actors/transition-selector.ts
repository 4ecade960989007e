import { type AnyMachineSnapshot, type AnyStateMachine, type AnyStateNode, type EventObject, stateIn } from 'xstate';

/*
 * Which transitions a machine takes, as XState finds it: the innermost states are asked first, each for the first of its transitions
 * whose guard holds, and a state only where none in it takes the event. Which transitions and guards come into question is the
 * chart's to say, and found once for each place and kind of event; only the guards are asked each time.
 */

export type Transition = ReturnType<AnyStateMachine['getTransitionData']>[number];

type Guard = (about: GuardArgs, params: unknown) => boolean;

interface Candidate {
  transition: Transition;
  /** Null where nothing is asked. */
  guard: Guard | null;
  params: unknown;
}

/** A state's own candidates in their order, for the case that no state in it takes the event. */
export interface TransitionSelector {
  children: readonly TransitionSelector[];
  candidates: readonly Candidate[];
}

/** What is chosen from for `event` wherever a machine is where `snapshot` is; null where XState has to choose. */
export function compileSelector(
  machine: AnyStateMachine,
  snapshot: AnyMachineSnapshot,
  event: EventObject,
): TransitionSelector | null {
  const above = (node: AnyStateNode, value: AnyMachineSnapshot['value']): TransitionSelector | null => {
    const regions = typeof value === 'string' ? { [value]: {} } : value;
    const inner: TransitionSelector[] = [];
    for (const [name, below] of Object.entries(regions)) {
      const region = node.states[name];
      const choice = region && below !== undefined ? above(region, below) : null;
      if (choice === null) return null;
      inner.push(choice);
    }
    const own = findCandidates(machine, node.transitions.get(event.type) ?? [], snapshot, event);
    return own && { children: inner, candidates: own };
  };
  return above(machine.root, snapshot.value);
}

interface GuardArgs {
  context: object;
  event: EventObject;
}

/** Throws what a guard throws. */
export function selectTransitions(choice: TransitionSelector, asked: GuardArgs): Transition[] {
  const chosen: Transition[] = [];
  collectTransitions(choice, asked, chosen);
  return chosen;
}

function collectTransitions(
  { children, candidates }: TransitionSelector,
  asked: GuardArgs,
  chosen: Transition[],
): void {
  const before = chosen.length;
  for (const choice of children) collectTransitions(choice, asked, chosen);
  if (chosen.length > before) return;
  for (const { transition, guard, params } of candidates) {
    if (guard !== null && !guard(asked, params)) continue;
    chosen.push(transition);
    return;
  }
}

/** What is chosen whatever the guards say; null where it depends on them. */
export function unconditionalTransitions({ children, candidates }: TransitionSelector): Transition[] | null {
  const chosen: Transition[] = [];
  for (const choice of children) {
    const always = unconditionalTransitions(choice);
    if (always === null) return null;
    chosen.push(...always);
  }
  const [first] = candidates;
  if (chosen.length > 0 || first === undefined) return chosen;
  return first.guard === null ? [first.transition] : null;
}

/** Without what is known not to hold at this place, and what comes after one that always holds. */
function findCandidates(
  machine: AnyStateMachine,
  transitions: readonly Transition[],
  snapshot: AnyMachineSnapshot,
  event: EventObject,
): Candidate[] | null {
  const found: Candidate[] = [];
  for (const transition of transitions) {
    const asked = resolveGuard(machine, transition.guard);
    if (asked === null) return null;
    const { guard, place, params } = asked;
    if (place && !place(snapshot, { context: snapshot.context, event }, guard)) continue;
    found.push({ transition, guard: place ? null : guard, params });
    if (place || guard === null) break;
  }
  return found;
}

/** XState's own guard that looks at nothing but the states a machine is in. */
type StateInCheck = (snapshot: AnyMachineSnapshot, about: object, guard: unknown) => boolean;
const checkOf = (guard: object | null): unknown => (guard !== null && 'check' in guard ? guard.check : undefined);
const stateInCheck = checkOf(stateIn({}));

/** Null where it is one that XState has to ask. */
function resolveGuard(
  { implementations }: AnyStateMachine,
  named: unknown,
): { guard: Guard | null; place: StateInCheck | null; params: unknown } | null {
  if (named === undefined) return { guard: null, place: null, params: undefined };
  const { type, params } =
    typeof named === 'string' ? { type: named, params: undefined } : (named as { type: string; params?: unknown });
  const guard = typeof named === 'function' ? (named as Guard) : (implementations.guards[type] as Guard | undefined);
  if (typeof guard !== 'function' || typeof params === 'function') return null;
  const check = checkOf(guard);
  if (check !== undefined && check !== stateInCheck) return null;
  return { guard, place: (check as StateInCheck | undefined) ?? null, params };
}
