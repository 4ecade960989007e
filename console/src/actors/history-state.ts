import type { Machine } from '../api/answer-types.ts';
import { isEntered, pathsIn } from './actor-display.ts';
import type { DrawnArrow, MachineTransition } from './chart-graph.ts';
import { stateAt } from './chart-graph.ts';
import type { ReplayStep } from './steps.ts';

/** State of an actor at one point of its history, as the chart shows it. */
export interface HistoryState {
  /** Paths of the entered states. */
  entered: readonly string[];
  /** Entered states before the last step; null without a step to show. */
  before: readonly string[] | null;
  /** The event of the last step; null if unknown. */
  event: string | null;
  /** The events that it accepts now; empty for a past state. */
  acceptedEvents: ReadonlySet<string>;
}

export const isActive = (path: string, { entered }: HistoryState): boolean => isEntered(path, entered);

/** Whether the last step left this state. */
export const wasExited = (path: string, { entered, before }: HistoryState): boolean =>
  before !== null && isEntered(path, before) && !isEntered(path, entered);

/** Events that the machine raises itself follow accepted events. */
const isRaised = ({ event }: MachineTransition): boolean => event.startsWith('self.');

/** Whether the actor can take this arrow next. */
export const isEnabled = ({ from, transitions }: DrawnArrow, historyState: HistoryState): boolean =>
  historyState.acceptedEvents.size > 0 &&
  isEntered(stateAt(from), historyState.entered) &&
  transitions.some((one) => historyState.acceptedEvents.has(one.event) || isRaised(one));

/** Whether the last step took this arrow. */
export function wasTaken({ from, to, transitions }: DrawnArrow, { entered, before, event }: HistoryState): boolean {
  if (before === null || !isEntered(to, entered) || !isEntered(stateAt(from), before)) return false;
  const isNew = !isEntered(to, before) || stateAt(from) === to;
  return isNew && transitions.some((one) => event === null || one.event === event || isRaised(one));
}

/** Paths of a machine's initial states: the source of a first step. */
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

/** The state after a step of the history. */
export const historyStateAfter = (
  machine: Machine,
  { from, to, event }: ReplayStep,
  accepted: readonly string[] = [],
): HistoryState => ({
  entered: pathsIn(to),
  before: from === null ? initialPaths(machine) : pathsIn(from),
  event,
  acceptedEvents: new Set(accepted),
});
