import type { ActorRecord, JournalEntry } from '../api/answer-types.ts';
import type { ActorTransition } from './live-actor-list.ts';

/**
 * A step of an actor's history. The journal keeps what people, plans and timers did; what a device's own messages moved is told
 * live and kept nowhere, so that it is known of what was heard while somebody looked, and else that it must have happened.
 */
export interface Step extends Pick<JournalEntry, 'from' | 'to' | 'data'> {
  /** Null where only its traces show that it happened. */
  event: string | null;
  /** Null where nobody knows. */
  at: string | null;
  by: string | null;
}

/** Oldest first, without a hole: each step begins where the one before ended, and the last ends where the actor is. */
export function stepsOf(
  newestFirst: readonly JournalEntry[],
  heard: readonly ActorTransition[],
  { state, since }: Pick<ActorRecord, 'state' | 'since'>,
): Step[] {
  const known = new Set(newestFirst.map(({ at, event }) => `${at} ${event}`));
  const live = heard.flatMap(({ from, to, event, at }): Step[] => {
    const time = new Date(at).toISOString();
    return known.has(`${time} ${event}`) ? [] : [{ event, at: time, by: null, from, to, data: null }];
  });
  const told: Step[] = [...newestFirst.toReversed(), ...live].sort((a, b) => ((a.at ?? '') < (b.at ?? '') ? -1 : 1));
  const whole: Step[] = [];
  for (const step of told) {
    const before = whole.at(-1);
    if (before !== undefined && step.from !== null && before.to !== step.from)
      whole.push(inferredStep(before.to, step.from, null));
    whole.push(step);
  }
  const last = whole.at(-1);
  if (last !== undefined && last.to !== state) whole.push(inferredStep(last.to, state, since));
  return whole;
}

const inferredStep = (from: string, to: string, at: string | null): Step => ({
  event: null,
  at,
  by: null,
  from,
  to,
  data: null,
});
