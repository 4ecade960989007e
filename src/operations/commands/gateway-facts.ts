import type { BatchView, Committed } from '../../actors/contract.ts';
import { type GatewayFacts, judge } from '../../domain/gateway.ts';
import type { Manifest } from '../../domain/manifest.ts';
import { done, type Outcome, type Refusal } from '../../domain/refusals.ts';
import type { JsonObject, Uuid } from '../../domain/values.ts';
import type { SessionFact } from '../../machines/command-types.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import { isActive } from '../../machines/tenant-record.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import { belongsTo, type CommittedDevice, findDevice, isRevoked } from '../devices/device-view.ts';
import { firmwareFacts, UPDATE_FIRMWARE } from '../firmware/firmware-facts.ts';
import { notFound } from '../inputs.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';

// What the gateway judges a command by. For what is live in memory nothing here asks the store.

/** A device with what it can do and whether it listens. */
export interface Target {
  device: CommittedDevice;
  manifest: Manifest | null;
  session: SessionFact;
}

export type CommittedTenant = Committed<TenantContext>;

export async function readTenant({ actors }: Pick<Services, 'actors'>, caller: Caller): Promise<CommittedTenant> {
  const ref = { kind: 'tenant', id: tenantOf(caller) } as const;
  const tenant = actors.peek<TenantContext>(ref) ?? (await actors.read<TenantContext>(ref));
  if (tenant === null) throw new Error(`the caller's tenant ${ref.id} has no actor`);
  return tenant;
}

/** What the gateway judges by beside the tenant and the target, as it is at that moment. */
export type GatewayServices = Pick<Services, 'flags' | 'artifacts'> & { actors: BatchView };

/** The same as `targetOf` where memory tells; undefined where the store has to be asked. */
export function targetFromMemory(
  services: Pick<Services, 'manifests' | 'sessions'>,
  turn: BatchView,
  caller: Caller,
  deviceId: Uuid,
): Outcome<Target> | undefined {
  const device = turn.peek<DeviceContext>({ kind: 'device', id: deviceId });
  if (device === undefined) return undefined;
  if (!belongsTo(device, tenantOf(caller))) return notFound('device');
  const manifest = services.manifests.peek(device.snapshot.context);
  return manifest === undefined ? undefined : done(makeTarget(services, device, manifest));
}

export async function loadTarget(services: Services, caller: Caller, deviceId: Uuid): Promise<Outcome<Target>> {
  const found = await findDevice(services, caller, deviceId);
  if (!found.ok) return found;
  const { context } = found.value.snapshot;
  const kept = services.manifests.peek(context);
  const manifest = kept !== undefined ? kept : ((await services.manifests.load([context])).get(deviceId) ?? null);
  return done(makeTarget(services, found.value, manifest));
}

/** Those of the devices that are the caller's, with at most one query for devices and one for manifests. */
export async function loadTargets(
  services: Services,
  caller: Caller,
  deviceIds: readonly Uuid[],
): Promise<Map<Uuid, Target>> {
  const read = await services.actors.readAll<DeviceContext>('device', deviceIds);
  const devices = [...read.values()].filter((device) => belongsTo(device, tenantOf(caller)));
  const manifests = await services.manifests.load(devices.map(({ snapshot }) => snapshot.context));
  return new Map(
    devices.map((device) => [device.ref.id, makeTarget(services, device, manifests.get(device.ref.id) ?? null)]),
  );
}

function makeTarget(
  { sessions }: Pick<Services, 'sessions'>,
  device: CommittedDevice,
  manifest: Manifest | null,
): Target {
  const session = sessions.get(device.ref.id);
  return { device, manifest, session: session?.subscribed ? { sessionId: session.sessionId } : null };
}

/** What the gateway is asked about; `release` is what `releaseNamed` answers for its action and parameters. */
export interface GatewayInput {
  action: string;
  params: JsonObject;
  dryRun: boolean;
  confirmed: boolean;
  release: FirmwareRelease | null;
}

export function gatewayFacts(
  services: GatewayServices,
  known: CommittedTenant,
  { device: found, manifest }: Target,
  { action, params, dryRun, confirmed, release }: GatewayInput,
): GatewayFacts {
  // Who was suspended or revoked while the store was asked for the rest is not commanded any more.
  const tenant = services.actors.peek<TenantContext>(known.ref) ?? known;
  const device = services.actors.peek<DeviceContext>(found.ref) ?? found;
  return {
    tenant: { suspended: !isActive(tenant.snapshot) },
    flags: services.flags(),
    device: { revoked: isRevoked(device) },
    manifest,
    action,
    params,
    dryRun,
    confirmed,
    ...(action === UPDATE_FIRMWARE && firmwareFacts(services, device, release)),
  };
}

/**
 * What the gateway refuses before it comes to what a device can do; `device` is null where the tenant has no such one. A
 * missing device is no command, so that nobody else would keep to the order of the flags.
 */
export function earlyRefusal(
  services: Pick<Services, 'flags'>,
  tenant: CommittedTenant,
  device: CommittedDevice | null,
): Refusal | null {
  const nothing = { manifest: null, action: '', params: {}, dryRun: false, confirmed: false };
  const verdict = judge({
    ...nothing,
    tenant: { suspended: !isActive(tenant.snapshot) },
    flags: services.flags(),
    device: device && { revoked: isRevoked(device) },
  });
  return verdict.kind === 'refused' && verdict.refusal.code !== 'MANIFEST_NOT_FOUND' ? verdict.refusal : null;
}
