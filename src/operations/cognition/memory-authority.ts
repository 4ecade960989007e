import {
  type Memory,
  type MemoryAuthor,
  type MemoryAuthority,
  type MemoryKind,
  memoryAuthorOf,
  type ShapingMemory,
  steeringAuthority,
} from '../../domain/memory.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Position } from '../../store/contract.ts';
import type { Services } from '../operation.ts';
import { type CreatorServices, loadCreator } from '../plans/plan-step-resolver.ts';

// Which memories a sidecar may plan with. A routine or a preference counts only if a person stands behind it who could
// send the commands now; an observation, if its writer could.

export type MemoryServices = CreatorServices & Pick<Services, 'store' | 'clock'>;

/** In the order in which they are sent. */
const MAX_SENT = { preference: 100, routine: 100, observation: 50 } as const satisfies Record<MemoryKind, number>;

/** Pages of one kind: bounds the cost of an update where more authors than fit on these were refused. */
const MAX_PAGES = 10;

/**
 * The newest memories of the tenant that the sidecar may plan with, at most `MAX_SENT` of each kind. Memories that it may
 * not plan with displace none of them, unless they fill `MAX_PAGES` with the newest ones of different authors.
 */
export async function memoriesOf(services: MemoryServices, tenantId: Uuid): Promise<readonly Memory[]> {
  const now = services.clock.now();
  const memories: Memory[] = [];
  for (const kind of Object.keys(MAX_SENT) as MemoryKind[])
    memories.push(...(await newestPlannable(services, tenantId, kind, now)));
  return memories;
}

/**
 * Reads pages until enough memories are found. Each page leaves out the authors that were refused before, so one author
 * costs at most one page more, however many memories they wrote, up to `MAX_PAGES`.
 */
async function newestPlannable(
  services: CreatorServices & Pick<Services, 'store'>,
  tenantId: Uuid,
  kind: MemoryKind,
  now: EpochMs,
): Promise<Memory[]> {
  const most = MAX_SENT[kind];
  const found: Memory[] = [];
  const refused = new Map<string, MemoryAuthor>();
  let pages = 0;
  let after: Position | undefined;
  do {
    const filter = { kind, suggestion: false, notBy: [...refused.values()] };
    const { items, next } = await services.store.memories.list(tenantId, filter, now, most, after);
    const allowed = await arePlannable(services, tenantId, items);
    found.push(...items.filter((_, index) => allowed[index]));
    for (const [index, memory] of items.entries())
      if (!allowed[index]) refused.set(authorKey(memory), memoryAuthorOf(memory));
    after = next ?? undefined;
    pages += 1;
  } while (after !== undefined && found.length < most && pages < MAX_PAGES);
  return found.slice(0, most);
}

const authorKey = (memory: Memory): string => JSON.stringify([memory.kind, memoryAuthorOf(memory)]);

/** For each memory; authors are looked up once. */
function arePlannable(services: CreatorServices, tenantId: Uuid, memories: readonly Memory[]): Promise<boolean[]> {
  const known = new Map<string, Promise<boolean>>();
  for (const memory of memories) {
    const author = authorKey(memory);
    if (!known.has(author)) known.set(author, isPlannable(services, tenantId, memory));
  }
  return Promise.all(memories.map((memory) => known.get(authorKey(memory)) ?? false));
}

/** Whether a sidecar may plan with this memory now. */
export async function isPlannable(services: CreatorServices, tenantId: Uuid, memory: Memory): Promise<boolean> {
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
  if ((await arePlannable(services, tenantId, found)).includes(false))
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
