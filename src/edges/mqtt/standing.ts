import type { Actors, Committed } from '../../actors/contract.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';

export type Device = Committed<DeviceContext>;
export type Tenant = Committed<TenantContext>;

/** Whether a device may talk now: it exists, belongs to this tenant and is not revoked. */
export function isActive(device: Device | null | undefined, tenantId: string): boolean {
  return device?.snapshot.context.tenantId === tenantId && isIn(device, 'administration', 'active');
}

/** Whether a tenant's devices and users may talk now. */
export function isOpen(tenant: Tenant | null | undefined): boolean {
  return tenant?.snapshot.value === 'active';
}

/** What is live in memory says no. What is not live says nothing. */
export function isKnownClosed(actors: Actors, deviceId: string, tenantId: string): boolean {
  const device = actors.peek<DeviceContext>({ kind: 'device', id: deviceId });
  const tenant = actors.peek<TenantContext>({ kind: 'tenant', id: tenantId });
  return (device !== undefined && !isActive(device, tenantId)) || (tenant !== undefined && !isOpen(tenant));
}

function isIn(actor: Committed<object>, region: string, state: string): boolean {
  const { value } = actor.snapshot;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const inside = value[region];
  // A state with states of its own is an object of its name.
  return inside === state || (typeof inside === 'object' && inside !== null && Object.hasOwn(inside, state));
}
