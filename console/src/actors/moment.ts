import type { Machine } from '../api/answer-types.ts';
import { isEntered, pathsIn } from './actor-display.ts';
import type { DrawnArrow, MachineTransition } from './chart-graph.ts';
import { stateAt } from './chart-graph.ts';
import type { Step } from './steps.ts';

/** An actor at one moment, now or in its past, as its chart shows it. */
export interface Moment {
  /** Paths that are entered. */
  entered: readonly string[];
  /** What was entered before the last step; null where there is no step to show. */
  before: readonly string[] | null;
  /** The event of the last step; null where nobody knows. */
  event: string | null;
  /** What it takes now; nothing of a moment that is past. */
  takes: ReadonlySet<string>;
}

export const isActive = (path: string, { entered }: Moment): boolean => isEntered(path, entered);

/** It was left by the last step. */
export const wasExited = (path: string, { entered, before }: Moment): boolean =>
  before !== null && isEntered(path, before) && !isEntered(path, entered);

/** What a machine raises for itself follows what it takes. */
const isRaised = ({ event }: MachineTransition): boolean => event.startsWith('self.');

/** Whether this arrow may be what the actor does next. */
export const isEnabled = ({ from, transitions }: DrawnArrow, moment: Moment): boolean =>
  moment.takes.size > 0 &&
  isEntered(stateAt(from), moment.entered) &&
  transitions.some((one) => moment.takes.has(one.event) || isRaised(one));

/** Whether this arrow is the way of the last step. */
export function wasTaken({ from, to, transitions }: DrawnArrow, { entered, before, event }: Moment): boolean {
  if (before === null || !isEntered(to, entered) || !isEntered(stateAt(from), before)) return false;
  const isNew = !isEntered(to, before) || stateAt(from) === to;
  return isNew && transitions.some((one) => event === null || one.event === event || isRaised(one));
}

/** Where a machine begins: what a first step came from. */
export function initialPaths({ type, states }: Machine): string[] {
  const within = (group: string): string[] => {
    const inner = states.filter(({ state }) => state.slice(0, Math.max(0, state.lastIndexOf('.'))) === group);
    const around = states.find(({ state }) => state === group);
    const entered =
      (group === '' ? type : around?.type) === 'parallel' ? inner : inner.filter(({ initial }) => initial);
    return entered.length === 0 ? [group] : entered.flatMap(({ state }) => within(state));
  };
  return within('');
}

/** The moment after a step of its history. */
export const momentAfter = (machine: Machine, { from, to, event }: Step, takes: readonly string[] = []): Moment => ({
  entered: pathsIn(to),
  before: from === null ? initialPaths(machine) : pathsIn(from),
  event,
  takes: new Set(takes),
});
