import type { ActorRecord, JournalRecord } from '../api/answer-types.ts';
import type { ActorTransition } from './live-actor-list.ts';

/**
 * A step of an actor's history. The journal records the events of people, plans and timers. Transitions caused by a device's
 * messages are only streamed: they are known if the page was open, and otherwise inferred from the states before and after.
 */
export interface ReplayStep extends Pick<JournalRecord, 'from' | 'to' | 'data'> {
  /** Null for an inferred step. */
  event: string | null;
  /** Null if unknown. */
  at: string | null;
  by: string | null;
}

/** Oldest first and without gaps: each step starts in the state where the previous one ended, up to the current state. */
export function stepsOf(
  newestFirst: readonly JournalRecord[],
  transitions: readonly ActorTransition[],
  { state, since }: Pick<ActorRecord, 'state' | 'since'>,
): ReplayStep[] {
  const recorded = new Set(newestFirst.map(({ at, event }) => `${at} ${event}`));
  const live = transitions.flatMap(({ from, to, event, at }): ReplayStep[] => {
    const time = new Date(at).toISOString();
    return recorded.has(`${time} ${event}`) ? [] : [{ event, at: time, by: null, from, to, data: null }];
  });
  const known: ReplayStep[] = [...newestFirst.toReversed(), ...live].sort((a, b) =>
    (a.at ?? '') < (b.at ?? '') ? -1 : 1,
  );
  const steps: ReplayStep[] = [];
  for (const step of known) {
    const before = steps.at(-1);
    if (before !== undefined && step.from !== null && before.to !== step.from)
      steps.push(inferredStep(before.to, step.from, null));
    steps.push(step);
  }
  const last = steps.at(-1);
  if (last !== undefined && last.to !== state) steps.push(inferredStep(last.to, state, since));
  return steps;
}

const inferredStep = (from: string, to: string, at: string | null): ReplayStep => ({
  event: null,
  at,
  by: null,
  from,
  to,
  data: null,
});
