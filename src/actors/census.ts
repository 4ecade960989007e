import type { ActorKind } from '../machines/outputs.ts';
import type { Roster } from './roster.ts';

/** The actors in memory, by kind, and how many letters the fullest mailbox holds. */
export interface Census {
  live: number;
  kinds: Record<ActorKind, number>;
  deepest: number;
}

export function census(roster: Roster): Census {
  const kinds: Census['kinds'] = { device: 0, command: 0, tenant: 0, plan: 0 };
  let deepest = 0;
  for (const { ref, mailbox } of roster) {
    kinds[ref.kind] += 1;
    deepest = Math.max(deepest, mailbox.length);
  }
  return { live: roster.size, kinds, deepest };
}
