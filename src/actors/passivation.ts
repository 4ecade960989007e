import type { EpochMs } from '../domain/values.ts';
import type { Entity } from './entity.ts';
import type { Limits } from './limits.ts';
import type { Roster } from './roster.ts';

const isResting = (entity: Entity): boolean => !entity.busy && !entity.ready && entity.mailbox.length === 0;

/**
 * Takes out of memory what nobody used for `idleMs`, and the longest unused of what is beyond the bound on live actors.
 * An actor with an event inside or in a turn stays. Answers how many went.
 */
export function passivate(roster: Roster, now: EpochMs, limits: Limits): number {
  const before = roster.size;
  for (const entity of roster) {
    if (isResting(entity) && now - entity.usedAt >= limits.idleMs) roster.drop(entity.ref);
  }
  const over = roster.size - limits.live;
  if (over > 0) {
    const resting = [...roster].filter(isResting);
    resting.sort((a, b) => a.usedAt - b.usedAt);
    for (const { ref } of resting.slice(0, over)) roster.drop(ref);
  }
  return before - roster.size;
}
