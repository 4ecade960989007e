import { withoutBuild } from '../../src/domain/firmware.ts';
import type { Uuid } from '../../src/domain/values.ts';
import type { AdministrationStore, TenantRow } from '../../src/store/contract/administration.ts';
import type { FirmwareRelease, FirmwareStore } from '../../src/store/contract/firmware.ts';
import type { IdempotencyRow } from '../../src/store/contract.ts';
import type { MemoryActors } from './memory-actors.ts';
import { pageOf } from './memory-pages.ts';

type Keep = (row: IdempotencyRow | null | undefined) => void;

const place = ({ createdAt, id }: { createdAt: number; id: string }) => ({ createdAt, id });

/** Tenants and flags, as `MemoryStore` has them. */
export const memoryAdministration = (
  actors: MemoryActors,
  flags: Record<string, boolean>,
  keep: Keep,
): AdministrationStore => ({
  tenants: async (limit, after) => {
    const tenants = [...actors.rows.values()]
      .filter(({ ref }) => ref.kind === 'tenant')
      .map(({ context, value }) => ({ ...context, suspended: value === 'suspended' }) as unknown as TenantRow);
    return pageOf(tenants, place, limit, after);
  },
  flags: async () => ({ ...flags }),
  setFlag: async (flag, state, also) => {
    flags[flag] = state;
    keep(also);
  },
});

/** Firmware releases, as `MemoryStore` has them. */
export function memoryFirmware(keep: Keep): FirmwareStore {
  const releases = new Map<Uuid, FirmwareRelease>();
  const artifacts = new Map<Uuid, number>();
  const mine = (tenantId: Uuid) => [...releases.values()].filter((release) => release.tenantId === tenantId);
  const used = (name: Uuid) => [...releases.values()].some(({ artifact }) => artifact?.name === name);
  return {
    insert: async (release, also) => {
      const same = mine(release.tenantId).some(
        ({ deviceType, version }) =>
          deviceType === release.deviceType && withoutBuild(version) === withoutBuild(release.version),
      );
      if (same) return false;
      releases.set(release.id, release);
      keep(also);
      return true;
    },
    update: async (release, also) => {
      releases.set(release.id, release);
      keep(also);
    },
    find: async (tenantId, id) => mine(tenantId).find((release) => release.id === id) ?? null,
    findAnywhere: async (id) => releases.get(id) ?? null,
    list: async (tenantId, { deviceType, status }, limit, after) => {
      const wanted = mine(tenantId).filter(
        (release) =>
          (deviceType === undefined || release.deviceType === deviceType) &&
          (status === undefined || release.status === status),
      );
      return pageOf(wanted, place, limit, after);
    },
    released: async (tenantId, deviceType) =>
      mine(tenantId).filter((release) => release.deviceType === deviceType && release.status === 'released'),
    countArtifacts: async (tenantId) => mine(tenantId).filter(({ artifact }) => artifact !== null).length,
    beginArtifact: async (name, at) => void artifacts.set(name, at),
    strayArtifacts: async (before) =>
      [...artifacts].filter(([name, at]) => at < before && !used(name)).map(([name]) => name),
    forgetArtifacts: async (names) => {
      for (const name of names) if (!used(name)) artifacts.delete(name);
    },
  };
}
