import type { EpochMs } from '../domain/values.ts';
import type { Entity } from './entity.ts';
import type { Limits } from './limits.ts';

const isResting = (entity: Entity): boolean => !entity.busy && !entity.ready && entity.mailbox.length === 0;

/**
 * Takes out of memory what nobody used for `idleMs`, and the longest unused of what is beyond the bound on live actors.
 * An actor with an event inside or in a turn stays. Answers how many went.
 */
export function passivate(entities: Map<string, Entity>, now: EpochMs, limits: Limits): number {
  const before = entities.size;
  for (const [address, entity] of entities) {
    if (isResting(entity) && now - entity.usedAt >= limits.idleMs) entities.delete(address);
  }
  const over = entities.size - limits.live;
  if (over > 0) {
    const resting = [...entities].filter(([, entity]) => isResting(entity));
    resting.sort(([, a], [, b]) => a.usedAt - b.usedAt);
    for (const [address] of resting.slice(0, over)) entities.delete(address);
  }
  return before - entities.size;
}
