import { type Memory, type MemoryAuthority, type ShapingMemory, steeringAuthority } from '../../domain/memory.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Services } from '../operation.ts';
import { type CreatorServices, loadCreator } from '../plans/plan-step-resolver.ts';

// Which memories a sidecar may plan with. A routine or a preference counts only if a person stands behind it who could
// send the commands now; an observation, if its writer could.

export type MemoryServices = CreatorServices & Pick<Services, 'store' | 'clock'>;

/** The memories that a sidecar may plan with now. */
export async function plannableMemories(
  services: CreatorServices,
  tenantId: Uuid,
  memories: readonly Memory[],
): Promise<Memory[]> {
  const allowed = await Promise.all(memories.map((memory) => isPlannable(services, tenantId, memory)));
  return memories.filter((_, index) => allowed[index]);
}

async function isPlannable(services: CreatorServices, tenantId: Uuid, memory: Memory): Promise<boolean> {
  const authority =
    memory.kind === 'observation' ? await observationAuthority(services, memory) : steeringAuthority(memory);
  if (authority === null) return false;
  const { by: createdBy, scopes } = authority;
  return (await loadCreator(services, { createdBy, scopes, requestId: memory.id, tenantId })).ok;
}

/** The writer, also a key. A memory without a recorded writer names its author in its source. */
async function observationAuthority(
  { apiKeys }: Pick<Services, 'apiKeys'>,
  memory: Memory,
): Promise<MemoryAuthority | null> {
  const { source, writer } = memory;
  if (writer !== null || !source.startsWith('key:')) return writer ?? steeringAuthority(memory);
  const key = await apiKeys.findValid(source.slice('key:'.length));
  return key && { by: { kind: 'user', id: key.userId, key: key.prefix }, scopes: null };
}

/**
 * The memories that a sidecar names as those that shaped a step, without repetitions and without those that were deleted
 * meanwhile. Refuses one that it may not plan with: a suggestion, or one whose person has lost the permission.
 */
export async function loadShapingMemories(
  services: MemoryServices,
  tenantId: Uuid,
  ids: readonly Uuid[],
): Promise<Outcome<Omit<ShapingMemory, 'steps'>[]>> {
  if (ids.length === 0) return done([]);
  const found = await services.store.memories.find(tenantId, ids, services.clock.now());
  const allowed = await plannableMemories(services, tenantId, found);
  if (allowed.length < found.length)
    return refuse('NOT_FOUND', 'The node names a memory that may not be planned with.');
  const order = [...new Set(ids)];
  return done(
    found
      .sort((one, other) => order.indexOf(one.id) - order.indexOf(other.id))
      .map(({ id, kind, subject, source, adoption }) => ({
        ...{ id, kind, subject, source, adoptedBy: adoption?.by.id ?? null },
      })),
  );
}
