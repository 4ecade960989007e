import { emptyWindow } from '../domain/replay-window.ts';
import type { EpochMs, Milliseconds } from '../domain/values.ts';
import { type Decision, emit, emitRefusal } from './decision.ts';
import type { DeviceContext, DeviceEvent } from './device-types.ts';
import type { Output } from './outputs.ts';

// What people do to a device: its registration, keys, place and manifest. Messages are in device-reports.ts.

type EventOf<Type extends DeviceEvent['type']> = Extract<DeviceEvent, { type: Type }>;
type Decided = Decision<DeviceContext>;
type Moment = { at: EpochMs };
type Grace = NonNullable<DeviceContext['grace']>;

export function register(context: DeviceContext, { at, device, key, manifest }: EventOf<'register'>): Decided {
  const outputs: Output[] = [{ type: 'key.put', deviceId: device.id, key }];
  if (manifest) outputs.push({ type: 'manifest.put', manifest });
  const changes = {
    ...context,
    ...device,
    createdAt: at,
    signingAlg: key.signingAlg,
    keyVersion: key.keyVersion,
    manifestVersion: manifest?.version ?? 0,
    manifestOwn: manifest?.own ?? false,
  };
  return { changes, outputs };
}

export const patch = (_: DeviceContext, { changes }: EventOf<'patch'>): Decided => ({ changes, outputs: [] });

/** A device is placed only while it is active: revoked ones hold no home. */
export const assignsPlace = (_: DeviceContext, { changes }: EventOf<'patch'>): boolean =>
  typeof changes.homeId === 'string' || typeof changes.roomId === 'string';

/** A key version is given once, in order; of two rotations at the same time the second is refused. */
export const isNextKey = (context: DeviceContext, { key }: EventOf<'rotate' | 'reinstate'>): boolean =>
  key.keyVersion === context.keyVersion + 1;

export const refuseKey = () => emitRefusal('CONFLICT', 'The key was changed meanwhile.');

export function rotate(context: DeviceContext, { at, key, graceUntil }: EventOf<'rotate'>): Decided {
  const { id: deviceId, keyVersion } = context;
  const ended = context.grace ? keyEnded(context, context.grace.keyVersion, at, [keyVersion, key.keyVersion]) : [];
  return {
    changes: { keyVersion: key.keyVersion, signingAlg: key.signingAlg, grace: { keyVersion, until: graceUntil } },
    outputs: [...ended, { type: 'key.put', deviceId, key }, { type: 'key.grace', deviceId, keyVersion, graceUntil }],
  };
}

export const graceLeft = ({ grace }: DeviceContext, { at }: Moment): Milliseconds =>
  Math.max(0, (grace as Grace).until - at);

export const hasGraceExpired = (context: DeviceContext, event: Moment): boolean => graceLeft(context, event) === 0;

export const endGrace = (context: DeviceContext, { at }: Moment): Decided => ({
  changes: { grace: null },
  outputs: keyEnded(context, (context.grace as Grace).keyVersion, at, [context.keyVersion]),
});

/** Whether this version of the key is replaced and not in grace. Versions only grow. Does not check revocation, which ends the current key too. */
export const hasKeyEnded = (
  { keyVersion, grace }: Pick<DeviceContext, 'keyVersion' | 'grace'>,
  version: number,
): boolean => version < keyVersion && version !== grace?.keyVersion;

/** The old key stops verifying, and the session that it opened ends. */
function keyEnded(
  { id: deviceId, tenantId }: DeviceContext,
  keyVersion: number,
  at: EpochMs,
  except: number[],
): Output[] {
  return [
    { type: 'keys.end', deviceId, status: 'retired', except, at },
    { type: 'session.end', tenantId, deviceId, keyVersion, reason: 'the key is retired' },
  ];
}

/** The keys are dead for good, and the device gives up its place: what is left of it is its history. */
export function revoke({ id: deviceId, tenantId }: DeviceContext, { at }: EventOf<'revoke'>): Decided {
  return {
    changes: { grace: null, homeId: null, roomId: null },
    outputs: [
      { type: 'keys.end', deviceId, status: 'revoked', at },
      { type: 'session.end', tenantId, deviceId, reason: 'the device is revoked' },
      { type: 'commands.tell', deviceId, event: { type: 'device.revoked', deviceId }, revokedAt: at },
    ],
  };
}

/** A new key and the replay window anew; key versions and the state's version go on counting. */
export const reinstate = (context: DeviceContext, { key }: EventOf<'reinstate'>): Decided => ({
  changes: {
    keyVersion: key.keyVersion,
    signingAlg: key.signingAlg,
    replay: emptyWindow(),
    reported: { ...context.reported, order: null },
  },
  outputs: [{ type: 'key.put', deviceId: context.id, key }],
});

export function registerManifest(context: DeviceContext, { manifest }: EventOf<'manifest.register'>): Decided {
  if (context.manifestOwn) return emitRefusal('CONFLICT', 'The device has a manifest of its own already.');
  return putManifest(context, manifest);
}

export function updateManifest(context: DeviceContext, event: EventOf<'manifest.update'>): Decided {
  if (context.manifestVersion === 0) return emitRefusal('NOT_FOUND', 'The device has no manifest yet.');
  if (event.expectedVersion !== context.manifestVersion) {
    return emitRefusal('CONFLICT', `The manifest's version is ${context.manifestVersion}.`);
  }
  return putManifest(context, event.manifest);
}

/** The version is counted here, whatever the caller thought it would be. */
function putManifest(context: DeviceContext, given: EventOf<'manifest.register'>['manifest']): Decided {
  const version = context.manifestVersion + 1;
  const manifest = { ...given, deviceId: context.id, tenantId: context.tenantId, version, own: true };
  return {
    changes: { manifestVersion: version, manifestOwn: true, category: manifest.category },
    outputs: [{ type: 'manifest.put', manifest }],
  };
}

export const refuseRevoked = () => emitRefusal('DEVICE_REVOKED', 'The device is revoked.');
export const refuseActive = () => emitRefusal('ILLEGAL_TRANSITION', 'The device is active: revoke it first.');

/** Told whenever the link changes. */
export const presence =
  (online: boolean) =>
  ({ id: deviceId, tenantId }: DeviceContext, { at }: Moment): Decided =>
    emit({ type: 'device.presence', tenantId, deviceId, online, at });
