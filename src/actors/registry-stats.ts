import type { ActorKind } from '../machines/outputs.ts';
import type { ActorRegistry } from './registry.ts';

/** Number of actors in memory, by kind, and the length of the longest mailbox. */
export interface RegistryStats {
  live: number;
  byKind: Record<ActorKind, number>;
  deepestMailbox: number;
}

export function registryStats(registry: ActorRegistry): RegistryStats {
  const byKind: RegistryStats['byKind'] = { device: 0, command: 0, tenant: 0, plan: 0 };
  let deepest = 0;
  for (const { ref, mailbox } of registry) {
    byKind[ref.kind] += 1;
    deepest = Math.max(deepest, mailbox.length);
  }
  return { live: registry.size, byKind, deepestMailbox: deepest };
}
