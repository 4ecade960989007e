import type { EpochMs } from '../domain/values.ts';
import type { LiveActor } from './live-actor.ts';
import type { ActorRegistry } from './registry.ts';
import type { RuntimeLimits } from './runtime-limits.ts';

const isIdle = (entity: LiveActor): boolean => !entity.inBatch && !entity.queued && entity.mailbox.length === 0;

/**
 * Takes out of memory what nobody used for `idleMs`, and the longest unused of what is beyond the bound on live actors.
 * An actor with an event inside or in a turn stays. Answers how many went.
 */
export function passivate(roster: ActorRegistry, now: EpochMs, limits: RuntimeLimits): number {
  const before = roster.size;
  for (const entity of roster) {
    if (isIdle(entity) && now - entity.lastUsedAt >= limits.idleMs) roster.remove(entity.ref);
  }
  const over = roster.size - limits.liveActors;
  if (over > 0) {
    const resting = [...roster].filter(isIdle);
    resting.sort((a, b) => a.lastUsedAt - b.lastUsedAt);
    for (const { ref } of resting.slice(0, over)) roster.remove(ref);
  }
  return before - roster.size;
}
