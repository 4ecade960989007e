import type { AppliedChange } from '../domain/change-request.ts';
import { MAX_TAGS, tagsAfter } from '../domain/device-tags.ts';
import { historyRulesOf, keptUnder } from '../domain/history/rules.ts';
import { emptyWindow } from '../domain/replay-window.ts';
import { type EpochMs, type Milliseconds, type Principal, SYSTEM } from '../domain/values.ts';
import { changeBoth, changeFixed, changeLive, type Decision, emit, emitRefusal } from './decision.ts';
import { storePending } from './device-samples.ts';
import type { DeviceContext, DeviceEvent, DeviceFixed, MessageHeader } from './device-types.ts';
import type { Output } from './outputs.ts';

// Decisions on a device's administration: registration, keys, place and manifest. Messages are in device-reports.ts.

type DeviceEventOf<Type extends DeviceEvent['type']> = Extract<DeviceEvent, { type: Type }>;
type Decided = Decision<DeviceContext>;
type Timestamped = { at: EpochMs };
type Grace = NonNullable<DeviceFixed['grace']>;

export function register(context: DeviceContext, { at, device, key, manifest }: DeviceEventOf<'register'>): Decided {
  const outputs: Output[] = [{ type: 'key.put', deviceId: device.id, key }];
  if (manifest) outputs.push({ type: 'manifest.put', manifest });
  outputs.push(...tagsChanged({ id: device.id, createdAt: at }, [], device.tags ?? []));
  const changes = changeFixed(context, {
    ...device,
    createdAt: at,
    signingAlg: key.signingAlg,
    keyVersion: key.keyVersion,
    manifestVersion: manifest?.version ?? 0,
    manifestOwn: manifest?.own ?? false,
  });
  return { changes, outputs };
}

export function patch(context: DeviceContext, { changes, tags: change }: DeviceEventOf<'patch'>): Decided {
  if (change === undefined) return { changes: changeFixed(context, changes), outputs: [] };
  const before = context.fixed.tags ?? [];
  const tags = tagsAfter(before, change);
  if (tags.length > MAX_TAGS)
    return emitRefusal('VALIDATION_FAILED', `The device would have ${tags.length} tags; it can have ${MAX_TAGS}.`);
  const outputs = tagsChanged(context.fixed, before, tags);
  return { changes: changeFixed(context, { ...changes, ...(outputs.length > 0 && { tags }) }), outputs };
}

/** Changes the rows by which lists find the device. */
function tagsChanged(
  { id: deviceId, createdAt }: Pick<DeviceFixed, 'id' | 'createdAt'>,
  before: readonly string[],
  after: readonly string[],
): Output[] {
  const added = after.filter((tag) => !before.includes(tag));
  const removed = before.filter((tag) => !after.includes(tag));
  return added.length + removed.length === 0
    ? []
    : [{ type: 'tags.change', deviceId, deviceCreatedAt: createdAt, added, removed }];
}

/** A deleted device is in no list; its tags stay in its journal. */
export const clearTags = (context: DeviceContext): Decided =>
  emit(...tagsChanged(context.fixed, context.fixed.tags ?? [], []));

/** Whether the patch assigns a home or room, which is allowed only for active devices. */
export const assignsPlace = (_: DeviceContext, { changes }: DeviceEventOf<'patch'>): boolean =>
  typeof changes.homeId === 'string' || typeof changes.roomId === 'string';

/** Key versions are assigned in order and once; of two concurrent rotations the second is refused. */
export const isNextKey = (context: DeviceContext, { key }: DeviceEventOf<'rotate' | 'reinstate'>): boolean =>
  key.keyVersion === context.fixed.keyVersion + 1;

export const refuseKey = () =>
  emitRefusal('CONFLICT', 'The key was changed concurrently. Retry with the current key version.');

export function rotate(context: DeviceContext, event: DeviceEventOf<'rotate'>): Decided {
  const { at, key, graceUntil } = event;
  const { id: deviceId, keyVersion } = context.fixed;
  const ended = context.fixed.grace
    ? keyEnded(context, context.fixed.grace.keyVersion, at, [keyVersion, key.keyVersion])
    : [];
  return {
    changes: changeFixed(context, {
      keyVersion: key.keyVersion,
      signingAlg: key.signingAlg,
      grace: { keyVersion, until: graceUntil },
    }),
    outputs: [
      ...ended,
      { type: 'key.put', deviceId, key },
      { type: 'key.grace', deviceId, keyVersion, graceUntil },
      ...applied(event),
    ],
  };
}

export const graceLeft = ({ fixed: { grace } }: DeviceContext, { at }: Timestamped): Milliseconds =>
  Math.max(0, (grace as Grace).until - at);

export const hasGraceExpired = (context: DeviceContext, event: Timestamped): boolean => graceLeft(context, event) === 0;

export const endGrace = (context: DeviceContext, { at }: Timestamped): Decided => ({
  changes: changeFixed(context, { grace: null }),
  outputs: keyEnded(context, (context.fixed.grace as Grace).keyVersion, at, [context.fixed.keyVersion]),
});

/** The key stops verifying, and the session that it opened ends. */
function keyEnded(
  { fixed: { id: deviceId, tenantId } }: DeviceContext,
  keyVersion: number,
  at: EpochMs,
  except: number[],
): Output[] {
  return [
    { type: 'keys.end', deviceId, status: 'retired', except, at },
    { type: 'session.end', tenantId, deviceId, keyVersion, reason: 'the key is retired' },
  ];
}

/** Invalidates all keys permanently. Home, room and history are kept, for commands that name it and a reinstatement. */
export function revoke(context: DeviceContext, event: DeviceEventOf<'revoke'>): Decided {
  const { at } = event;
  const { id: deviceId, tenantId } = context.fixed;
  return {
    changes: changeFixed(context, { grace: null }),
    outputs: [
      { type: 'keys.end', deviceId, status: 'revoked', at },
      { type: 'session.end', tenantId, deviceId, reason: 'the device is revoked' },
      { type: 'commands.tell', deviceId, event: { type: 'device.revoked', deviceId }, revokedAt: at },
      ...applied(event),
    ],
  };
}

/** Sets a new key and resets the replay window; key versions and the state's version continue. */
export const reinstate = (context: DeviceContext, event: DeviceEventOf<'reinstate'>): Decided => ({
  changes: changeBoth(
    context,
    { keyVersion: event.key.keyVersion, signingAlg: event.key.signingAlg },
    { replay: emptyWindow(), reported: { ...context.live.reported, order: null } },
  ),
  outputs: [{ type: 'key.put', deviceId: context.fixed.id, key: event.key }, ...applied(event)],
});

export function registerManifest(context: DeviceContext, event: DeviceEventOf<'manifest.register'>): Decided {
  if (context.fixed.manifestOwn)
    return emitRefusal('CONFLICT', 'The device already has a tenant manifest. Update it instead.');
  return putManifest(context, event);
}

export function updateManifest(context: DeviceContext, event: DeviceEventOf<'manifest.update'>): Decided {
  if (context.fixed.manifestVersion === 0) return emitRefusal('NOT_FOUND', 'The device has no manifest yet.');
  return putManifest(context, event);
}

/** Assigns the next version, regardless of the version in the given manifest. */
function putManifest(context: DeviceContext, event: DeviceEventOf<'manifest.register' | 'manifest.update'>): Decided {
  const { manifest: given, expectedVersion } = event;
  if (expectedVersion !== context.fixed.manifestVersion) {
    return emitRefusal('CONFLICT', `The manifest's current version is ${context.fixed.manifestVersion}.`);
  }
  const version = context.fixed.manifestVersion + 1;
  const { samples } = context.live;
  const history = historyRulesOf(given.properties);
  const rules = (history ?? context.fixed.history) && { history: history ?? [] };
  const manifest = { ...given, deviceId: context.fixed.id, tenantId: context.fixed.tenantId, version };
  return {
    changes: changeBoth(
      context,
      { manifestVersion: version, manifestOwn: given.own, category: given.category, ...rules },
      { samples: { ...samples, kept: keptUnder(samples.kept, history) } },
    ),
    outputs: [{ type: 'manifest.put', manifest }, ...applied(event)],
  };
}

/** Ends the confirmed change request in the same commit. */
const applied = ({ at, by = SYSTEM, change }: { at: EpochMs; by?: Principal; change?: AppliedChange }): Output[] =>
  change === undefined ? [] : [{ type: 'change.apply', changeId: change.id, by, at }];

export const refuseRevoked = () => emitRefusal('DEVICE_REVOKED', 'The device is revoked.');
export const refuseActive = () => emitRefusal('ILLEGAL_TRANSITION', 'The device is active. Revoke it first.');

/** Emitted whenever the link state changes. */
export const presence =
  (online: boolean) =>
  (context: DeviceContext, event: Timestamped & { header?: Pick<MessageHeader, 'historyBytes'> }): Decided => {
    const { id: deviceId, tenantId } = context.fixed;
    // The change is committed, and the telemetry that waits with it.
    const { samples, outputs } = storePending(context.live.samples, { limit: event.header?.historyBytes });
    return {
      changes: samples === context.live.samples ? null : changeLive(context, { samples }),
      outputs: [...outputs, { type: 'device.presence', tenantId, deviceId, online, at: event.at }],
    };
  };
