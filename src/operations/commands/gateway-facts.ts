import type { BatchView, Committed } from '../../actors/contract.ts';
import { UPDATE_FIRMWARE } from '../../domain/firmware-verification.ts';
import { type GatewayFacts, judge } from '../../domain/gateway.ts';
import type { Manifest } from '../../domain/manifest.ts';
import { done, type Outcome, type Refusal } from '../../domain/refusals.ts';
import type { JsonObject, Uuid } from '../../domain/values.ts';
import type { SessionFact } from '../../machines/command-types.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import { isActiveSnapshot } from '../../machines/tenant-record.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { type CommittedDevice, findDevice, isRevoked, isVisibleTo } from '../devices/device-view.ts';
import { firmwareFacts, type RequestedRelease } from '../firmware/firmware-facts.ts';
import { notFound } from '../inputs.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';

// Facts for the safety gateway. Actors that are live in memory are read without a query.

/** A device with its manifest and its subscribed session, if any. */
export interface Target {
  device: CommittedDevice;
  manifest: Manifest | null;
  session: SessionFact;
}

export type CommittedTenant = Committed<TenantContext>;

/** Services that load a target: the device, its manifest and its session. */
export type TargetServices = Pick<Services, 'actors' | 'manifests' | 'sessions'>;

export async function readTenant({ actors }: Pick<Services, 'actors'>, caller: Caller): Promise<CommittedTenant> {
  const ref = { kind: 'tenant', id: tenantOf(caller) } as const;
  const tenant = actors.peek<TenantContext>(ref) ?? (await actors.read<TenantContext>(ref));
  if (tenant === null) throw new Error(`the caller's tenant ${ref.id} has no actor`);
  return tenant;
}

/** Services that supply the gateway's other facts: flags, firmware, and committed actor state. */
export type GatewayServices = Pick<Services, 'flags' | 'artifacts'> & { actors: BatchView };

/** Like `loadTarget`, from memory only; undefined on a miss. */
export function targetFromMemory(
  services: Pick<Services, 'manifests' | 'sessions'>,
  batch: BatchView,
  caller: Caller,
  deviceId: Uuid,
): Outcome<Target> | undefined {
  const device = batch.peek<DeviceContext>({ kind: 'device', id: deviceId });
  if (device === undefined) return undefined;
  if (!isVisibleTo(device, caller)) return notFound('device');
  const manifest = services.manifests.peek(device.snapshot.context.fixed);
  return manifest === undefined ? undefined : done(makeTarget(services, device, manifest));
}

export async function loadTarget(services: TargetServices, caller: Caller, deviceId: Uuid): Promise<Outcome<Target>> {
  const found = await findDevice(services, caller, deviceId);
  if (!found.ok) return found;
  const { fixed } = found.value.snapshot.context;
  const cached = services.manifests.peek(fixed);
  const manifest = cached !== undefined ? cached : ((await services.manifests.load([fixed])).get(deviceId) ?? null);
  return done(makeTarget(services, found.value, manifest));
}

/** The targets among these ids that are the caller's and that their credential reaches, with at most one query for devices and one for manifests. */
export async function loadTargets(
  services: TargetServices,
  caller: Caller,
  deviceIds: readonly Uuid[],
): Promise<Map<Uuid, Target>> {
  const read = await services.actors.readAll<DeviceContext>('device', deviceIds);
  const devices = [...read.values()].filter((device) => isVisibleTo(device, caller));
  const manifests = await services.manifests.load(devices.map(({ snapshot }) => snapshot.context.fixed));
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

/** The command that the gateway judges; `release` is the result of `findRequestedRelease` for it. */
export interface GatewayInput {
  action: string;
  params: JsonObject;
  dryRun: boolean;
  confirmed: boolean;
  release: RequestedRelease | null;
}

export function gatewayFacts(
  services: GatewayServices,
  known: CommittedTenant,
  { device: found, manifest }: Target,
  { action, params, dryRun, confirmed, release }: GatewayInput,
): GatewayFacts {
  // Reads tenant and device again: either may have been suspended or revoked during the queries.
  const tenant = services.actors.peek<TenantContext>(known.ref) ?? known;
  const device = services.actors.peek<DeviceContext>(found.ref) ?? found;
  return {
    tenant: { suspended: !isActiveSnapshot(tenant.snapshot) },
    flags: services.flags(),
    device: { revoked: isRevoked(device), reportsFirmware: device.snapshot.context.fixed.firmware !== null },
    manifest,
    action,
    params,
    dryRun,
    confirmed,
    ...(action === UPDATE_FIRMWARE && firmwareFacts(services, device, release)),
  };
}

/**
 * The gateway's refusal before it checks the manifest, or null; `device` is null if the tenant has none with this id. A
 * missing device never becomes a command, so this keeps the order in which flags and device are checked.
 */
export function earlyRefusal(
  services: Pick<Services, 'flags'>,
  tenant: CommittedTenant,
  device: CommittedDevice | null,
): Refusal | null {
  const nothing = { manifest: null, action: '', params: {}, dryRun: false, confirmed: false };
  const verdict = judge({
    ...nothing,
    tenant: { suspended: !isActiveSnapshot(tenant.snapshot) },
    flags: services.flags(),
    device: device && { revoked: isRevoked(device) },
  });
  return verdict.kind === 'refused' && verdict.refusal.code !== 'MANIFEST_NOT_FOUND' ? verdict.refusal : null;
}
