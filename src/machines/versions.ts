import type { ActorColumns } from './actor-columns.ts';
import { commandDefinition, commandDefinitionV1 } from './command-record.ts';
import type { ContextParts, MachineDefinition } from './definition.ts';
import { deviceDefinition } from './device-record.ts';
import type { ActorKind } from './outputs.ts';
import { planDefinition, planDefinitionV1 } from './plan-record.ts';
import { tenantDefinition } from './tenant-record.ts';

/** All definitions that stored actors may still need, by kind, oldest first. New actors get the last one. */
const definitionsByKind: Readonly<Record<ActorKind, readonly MachineDefinition[]>> = {
  device: [deviceDefinition],
  command: [commandDefinitionV1, commandDefinition],
  tenant: [tenantDefinition],
  plan: [planDefinitionV1, planDefinition],
} satisfies { [Kind in ActorKind]: readonly MachineDefinition<ContextParts, ActorColumns[Kind]>[] };

/** All definitions, also of old versions. */
export const allDefinitions = (): readonly MachineDefinition[] => Object.values(definitionsByKind).flat();

/**
 * The definition of a stored actor. Throws if this build does not have that version: an older or newer build wrote it.
 */
export function definitionFor(kind: ActorKind, version: number): MachineDefinition {
  const found = definitionsByKind[kind]?.find((definition) => definition.version === version);
  if (!found) throw new RangeError(`machine '${kind}' has no version ${version} in this build`);
  return found;
}

/** The definition for new actors of this kind. */
export function currentDefinition(kind: ActorKind): MachineDefinition {
  const current = definitionsByKind[kind]?.at(-1);
  if (!current) throw new RangeError(`machine '${kind}' does not exist in this build`);
  return current;
}
