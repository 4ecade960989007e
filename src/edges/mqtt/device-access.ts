import type { Actors, Committed } from '../../actors/contract.ts';
import { hasKeyEnded } from '../../domain/device-key.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { belongsTo, type CommittedDevice, isRevoked } from '../../operations/devices/device-view.ts';

type CommittedTenant = Committed<TenantContext>;

/** Whether a device may exchange messages now: it exists, belongs to this tenant and is not revoked. */
export function isDeviceActive(device: CommittedDevice | null | undefined, tenantId: string): boolean {
  return device !== null && device !== undefined && belongsTo(device, tenantId) && !isRevoked(device);
}

/** Whether the device is active and a session that this version of its key opened is still valid. */
export function isSessionKeyValid(
  device: CommittedDevice | null | undefined,
  { tenantId, keyVersion }: { tenantId: string; keyVersion: number },
): boolean {
  return (
    isDeviceActive(device, tenantId) && !hasKeyEnded((device as CommittedDevice).snapshot.context.fixed, keyVersion)
  );
}

/** Whether a tenant's devices and users may exchange messages now. */
export function isTenantActive(tenant: CommittedTenant | null | undefined): boolean {
  return tenant?.snapshot.value === 'active';
}

/**
 * Whether the actors in memory show that the device or its tenant is inactive. False for actors that are not loaded.
 */
export function isDeviceKnownInactive(actors: Pick<Actors, 'peek'>, deviceId: string, tenantId: string): boolean {
  const device = actors.peek<DeviceContext>({ kind: 'device', id: deviceId });
  return (device !== undefined && !isDeviceActive(device, tenantId)) || isTenantKnownInactive(actors, tenantId);
}

/** The same for the tenant alone. */
export function isTenantKnownInactive(actors: Pick<Actors, 'peek'>, tenantId: string): boolean {
  const tenant = actors.peek<TenantContext>({ kind: 'tenant', id: tenantId });
  return tenant !== undefined && !isTenantActive(tenant);
}
