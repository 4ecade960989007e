import { NotOwner } from '../../actors/contract.ts';
import { automaticManifest, categoryOf } from '../../domain/capability-registry.ts';
import { derivedId } from '../../domain/derived-id.ts';
import { type DeviceCa, matchesPattern } from '../../domain/device-ca.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { SYSTEM, type Uuid } from '../../domain/values.ts';
import type { DeviceContext, DeviceEvent } from '../../machines/device-types.ts';
import type { DeviceKeyRow } from '../../machines/outputs.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { withinBetaLimit } from '../devices/beta-limit.ts';
import { resolvePlacement, withPlacementLock } from '../homes/placement.ts';
import { displayName } from '../inputs.ts';
import type { Services } from '../operation.ts';
import { withinQuota } from '../quota-checks.ts';

/** The services that register a device by its certificate. */
export type RegistrationServices = Pick<
  Services,
  'actors' | 'audit' | 'clock' | 'flags' | 'locks' | 'manifests' | 'newId' | 'settings' | 'store'
>;

/** The client whose certificate registers a device, for the audit. */
export interface RegisteringClient {
  address: string;
  serialNumber: string;
}

/**
 * Registers the device of a common name that no device is bound to, by the rule of the CA, and binds it. Returns the device
 * that it is bound to then. The certificate is verified, and its CA is active. An operation of the tenant's shard: throws
 * `NotOwner` if the shard leaves, because its new owner counts the devices of the CA as well.
 */
export function registerByCertificate(
  services: RegistrationServices,
  ca: DeviceCa,
  commonName: string,
  client: RegisteringClient,
): Promise<Outcome<Uuid>> {
  // The number of devices is that of the CA, so its registrations run one at a time. Those that wait do not hold the shard.
  return services.locks.exclusive(`ca:${ca.id}`, async () => {
    const leave = services.actors.enter(ca.tenantId);
    if (leave === null) throw new NotOwner();
    try {
      return await registerAlone(services, ca, commonName, client);
    } finally {
      leave();
    }
  });
}

async function registerAlone(
  services: RegistrationServices,
  ca: DeviceCa,
  commonName: string,
  client: RegisteringClient,
): Promise<Outcome<Uuid>> {
  const { flags, store } = services;
  const bound = await store.deviceCas.subject(ca.id, commonName);
  if (bound !== null) return done(bound.deviceId);
  const current = await store.deviceCas.find(ca.tenantId, ca.id);
  const rule = current?.status === 'active' ? current.registration : null;
  if (rule === null) return refuse('FORBIDDEN', 'The CA registers no devices.');
  const tenant = await services.actors.read<TenantContext>({ kind: 'tenant', id: ca.tenantId });
  if (tenant?.snapshot.value !== 'active') return refuse('FORBIDDEN', 'The tenant is not active.');
  if (await store.deviceCas.isUnbound(ca.id, commonName))
    return refuse('FORBIDDEN', 'The common name was unbound from its device: bind it to one.');
  const { maintenance_mode, registration_lock } = flags();
  if (maintenance_mode || registration_lock) return refuse('REGISTRATION_LOCKED', 'No devices are registered now.');
  // An invisible character would make it look like another device's.
  if (!displayName.safeParse(commonName).success || /\p{Cf}/u.test(commonName))
    return refuse('FORBIDDEN', 'The common name cannot be a name.');
  if (rule.subjectPattern !== null && !matchesPattern(rule.subjectPattern, commonName))
    return refuse('FORBIDDEN', 'The common name does not match the pattern of the rule.');
  if ((await store.deviceCas.countRegistered(ca.id)) >= rule.maxDevices)
    return refuse('QUOTA_REACHED', `The rule of the CA registers at most ${rule.maxDevices} devices.`);
  return withPlacementLock(services, ca.tenantId, async () => {
    const place = { home_id: rule.homeId, room_id: rule.roomId };
    const placement = await resolvePlacement(services, ca.tenantId, place, { homeId: null, roomId: null });
    if (!placement.ok) return placement;
    const registerDevice = () => register(services, { ...ca, registration: rule }, commonName, client);
    // The process may have ended between the registration and the binding: that device is in the quota already.
    const isRegistered = (await services.actors.read<DeviceContext>(deviceRefOf(ca, commonName))) !== null;
    if (isRegistered) return registerDevice();
    const count = () => store.devices.count(ca.tenantId);
    return withinQuota(services, ca.tenantId, 'devices', count, () => withinBetaLimit(services, registerDevice));
  });
}

/** The same device again if the process ended before the subject was bound. */
const deviceRefOf = ({ id, createdAt }: DeviceCa, commonName: string) =>
  ({ kind: 'device', id: derivedId(createdAt, 'certificate', id, commonName) }) as const;

async function register(
  services: Pick<RegistrationServices, 'actors' | 'audit' | 'clock' | 'manifests' | 'newId' | 'store'>,
  ca: DeviceCa & { registration: NonNullable<DeviceCa['registration']> },
  commonName: string,
  { address, serialNumber }: RegisteringClient,
): Promise<Outcome<Uuid>> {
  const { actors, audit, clock, manifests, newId, store } = services;
  const { id: caId, tenantId, registration } = ca;
  const { homeId, roomId, deviceType, setBy } = registration;
  const ref = deviceRefOf(ca, commonName);
  const { id } = ref;
  if ((await actors.read<DeviceContext>(ref)) === null) {
    const manifest = automaticManifest({ deviceId: id, tenantId, deviceType });
    const key = withoutKey(clock.now());
    const event: DeviceEvent = {
      type: 'register',
      at: key.createdAt,
      by: SYSTEM,
      device: {
        ...{ id, tenantId, deviceType, category: categoryOf(deviceType), name: commonName },
        ...{ homeId, roomId, metadata: {}, signingAlg: key.signingAlg },
      },
      key,
      manifest,
    };
    await actors.create(ref, event);
    if (manifest !== null) manifests.put(manifest);
  }
  const action = {
    ...{ tenantId, by: setBy, key: null, via: 'mqtt', action: 'registerDeviceByCertificate', subject: `device:${id}` },
    ...{ requestId: newId(), address, client: `certificate ${serialNumber} of CA ${caId}` },
  };
  // Before the binding: the next sign-in of a name that is bound does not come here.
  await audit.recordDone(action, derivedId(ca.createdAt, 'certificate audit', caId, commonName));
  const subject = { caId, commonName, tenantId, deviceId: id, boundBy: null, boundAt: clock.now() };
  if (await store.deviceCas.bind(subject, null)) return done(id);
  const bound = await store.deviceCas.subject(caId, commonName);
  return bound === null ? refuse('CONFLICT', 'The common name could not be bound.') : done(bound.deviceId);
}

/**
 * The first version of the keys of a device that has none: it verifies nothing. As for every Ed25519 key, the messages to the
 * device are signed with the key of the service.
 */
const withoutKey = (createdAt: number): DeviceKeyRow => ({
  ...{ keyVersion: 1, signingAlg: 'ed25519', sealedSecret: null, publicKey: null, createdAt },
});
