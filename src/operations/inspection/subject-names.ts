import { isUuid } from '../../domain/uuid.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Services } from '../operation.ts';

const namedKinds = ['device', 'command', 'plan'] as const;

/**
 * Names of audited subjects such as `device:<id>`: a device's name or type, a command's action, a plan's name. Three queries
 * at most, which activate no actor. A refused request may name an actor of another tenant, whose name is left out.
 */
export async function subjectNames(
  { store }: Pick<Services, 'store'>,
  tenantId: Uuid,
  subjects: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const found = await Promise.all(
    namedKinds.map(async (kind) => {
      const prefix = `${kind}:`;
      const ids = subjects.filter((subject) => subject.startsWith(prefix)).map((one) => one.slice(prefix.length));
      const names = await store.inspection.names(tenantId, kind, [...new Set(ids)].filter(isUuid));
      return [...names].map(([id, name]) => [`${prefix}${id}`, name] as const);
    }),
  );
  return new Map(found.flat());
}
