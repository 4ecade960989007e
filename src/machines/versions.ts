import { commandDefinition, commandDefinitionV1 } from './command-record.ts';
import type { MachineDefinition } from './definition.ts';
import { deviceDefinition } from './device-record.ts';
import type { ActorKind } from './outputs.ts';
import { planDefinition, planDefinitionV1 } from './plan-record.ts';
import { tenantDefinition } from './tenant-record.ts';

/** Every definition that stored actors may still need, by kind, oldest first; the last one is what new actors get. */
const definitionsByKind: Partial<Record<ActorKind, readonly MachineDefinition[]>> = {
  device: [deviceDefinition],
  command: [commandDefinitionV1, commandDefinition],
  tenant: [tenantDefinition],
  plan: [planDefinitionV1, planDefinition],
};

/** All kinds of actors of this build. */
export const actorKinds = Object.keys(definitionsByKind) as ActorKind[];

/** Throws where this build never had, or no longer has, that version: an older build wrote it, or a newer one. */
export function definitionFor(kind: ActorKind, version: number): MachineDefinition {
  const found = definitionsByKind[kind]?.find((definition) => definition.version === version);
  if (!found) throw new RangeError(`there is no version ${version} of the machine '${kind}' in this build`);
  return found;
}

/** What new actors of this kind are made of. */
export function currentDefinition(kind: ActorKind): MachineDefinition {
  const current = definitionsByKind[kind]?.at(-1);
  if (!current) throw new RangeError(`there is no machine '${kind}' in this build`);
  return current;
}
