import type { EpochMs } from '../domain/values.ts';
import type { LiveActor } from './live-actor.ts';
import type { ActorRegistry } from './registry.ts';
import type { RuntimeLimits } from './runtime-limits.ts';

const isIdle = ({ status, mailbox }: LiveActor): boolean => status === 'idle' && mailbox.length === 0;

/**
 * Removes actors from memory that were not used for `idleMs`, and the least recently used ones above `liveActors`.
 * Actors with queued events or in a batch stay. Returns the number of removed actors.
 */
export function passivate(registry: ActorRegistry, now: EpochMs, limits: RuntimeLimits): number {
  const before = registry.size;
  for (const actor of registry) {
    if (isIdle(actor) && now - actor.lastUsedAt >= limits.idleMs) registry.remove(actor);
  }
  const excess = registry.size - limits.liveActors;
  if (excess > 0) {
    const idle = [...registry].filter(isIdle);
    idle.sort((a, b) => a.lastUsedAt - b.lastUsedAt);
    for (const actor of idle.slice(0, excess)) registry.remove(actor);
  }
  return before - registry.size;
}
