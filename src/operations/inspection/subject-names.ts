import { isUuid } from '../../domain/uuid.ts';
import type { Uuid } from '../../domain/values.ts';
import type { CommandContext } from '../../machines/command-types.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import type { Services } from '../operation.ts';

type NamedKind = 'device' | 'command' | 'plan';

interface NamedFixed {
  tenantId: Uuid;
  label: string | null;
}

/** Reads the actors of one kind and returns the tenant and the name of each. */
async function namedActors(
  { actors }: Pick<Services, 'actors'>,
  kind: NamedKind,
  ids: readonly Uuid[],
): Promise<[Uuid, NamedFixed][]> {
  if (ids.length === 0) return [];
  if (kind === 'device') {
    return [...(await actors.readAll<DeviceContext>(kind, ids))].map(([id, { snapshot }]) => {
      const { tenantId, name, deviceType } = snapshot.context.fixed;
      return [id, { tenantId, label: name ?? deviceType }];
    });
  }
  if (kind === 'command') {
    return [...(await actors.readAll<CommandContext>(kind, ids))].map(([id, { snapshot }]) => {
      const { tenantId, action } = snapshot.context.fixed;
      return [id, { tenantId, label: action }];
    });
  }
  return [...(await actors.readAll<PlanContext>(kind, ids))].map(([id, { snapshot }]) => {
    const { tenantId, name } = snapshot.context.fixed;
    return [id, { tenantId, label: name }];
  });
}

/**
 * Names of audited subjects such as `device:<id>`: a device's name or type, a command's action, a plan's name. Three queries
 * at most. A refused request may name an actor of another tenant, whose name is left out.
 */
export async function subjectNames(
  services: Pick<Services, 'actors'>,
  tenantId: Uuid,
  subjects: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const kinds: readonly NamedKind[] = ['device', 'command', 'plan'];
  const found = await Promise.all(
    kinds.map(async (kind) => {
      const prefix = `${kind}:`;
      const named = subjects.filter((subject) => subject.startsWith(prefix)).map((one) => one.slice(prefix.length));
      const actors = await namedActors(services, kind, [...new Set(named)].filter(isUuid));
      return actors.flatMap(([id, { tenantId: owner, label }]) =>
        owner === tenantId && label !== null ? [[`${prefix}${id}`, label] as const] : [],
      );
    }),
  );
  return new Map(found.flat());
}
