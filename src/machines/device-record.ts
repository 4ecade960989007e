import { z } from 'zod';
import { signingAlgs } from '../domain/device-key.ts';
import { windowFromJson, windowToJson } from '../domain/replay-window.ts';
import { twinOf } from '../domain/twin.ts';
import type { Json, JsonObject } from '../domain/values.ts';
import type { JournalNote, MachineDefinition, MachineEvent, Snapshot, StoredContext } from './definition.ts';
import { deviceMachine } from './device.ts';
import type { DeviceContext, DeviceEvent } from './device-types.ts';
import type { ReportOrder } from './report-order.ts';
import { count, epochMs, isoTime, jsonObject, uuid } from './stored-schemas.ts';

// Stored form, journal entries and admin view of a device.

export type Administration = 'unregistered' | 'active' | 'revoked' | 'deleted';

export function administrationOf({ value }: Pick<Snapshot, 'value'>): Administration {
  const { administration } = value as { administration: Administration | { active: Json } };
  return typeof administration === 'string' ? administration : 'active';
}

export const isOnline = ({ value }: Pick<Snapshot, 'value'>): boolean => (value as { link: Json }).link === 'online';

const stored = z.strictObject({
  id: uuid,
  tenantId: uuid,
  deviceType: z.string(),
  category: z.string().nullable(),
  name: z.string().nullable(),
  homeId: uuid.nullable(),
  roomId: uuid.nullable(),
  metadata: jsonObject,
  firmware: z.string().nullable(),
  createdAt: epochMs,
  signingAlg: z.enum(signingAlgs),
  keyVersion: count,
  grace: z.strictObject({ keyVersion: count, until: epochMs }).nullable(),
  manifestVersion: count,
  manifestOwn: z.boolean(),
  state: jsonObject,
  stateVersion: count,
  reportedAt: epochMs.nullable(),
  replay: z.strictObject({
    highest: count,
    slots: z.string(),
    order: z.strictObject({ full: count, properties: z.array(z.tuple([z.string(), count])) }).optional(),
  }),
});

const toStored = (context: DeviceContext): StoredContext => ({
  fixed: {
    id: context.id,
    tenantId: context.tenantId,
    deviceType: context.deviceType,
    category: context.category,
    name: context.name,
    homeId: context.homeId,
    roomId: context.roomId,
    metadata: context.metadata,
    firmware: context.firmware,
    createdAt: context.createdAt,
    signingAlg: context.signingAlg,
    keyVersion: context.keyVersion,
    grace: context.grace,
    manifestVersion: context.manifestVersion,
    manifestOwn: context.manifestOwn,
  },
  live: {
    state: context.state,
    stateVersion: context.stateVersion,
    reportedAt: context.reported.at,
    replay: {
      ...windowToJson(context.replay),
      ...(context.reported.order && { order: orderToJson(context.reported.order) }),
    },
  },
});

// As pairs, because a property may have any name, including `__proto__`.
const orderToJson = ({ full, properties }: ReportOrder) => ({ full, properties: Object.entries(properties) });

function fromStored(json: JsonObject): DeviceContext {
  const { reportedAt: at, replay, ...rest } = stored.parse(json);
  const { order: given, ...window } = replay;
  const order = given ? { full: given.full, properties: Object.fromEntries(given.properties) } : null;
  return { ...rest, reported: { at, bytes: twinOf(rest.state).bytes, order }, replay: windowFromJson(window) };
}

const GRACE_OVER = 'xstate.after.graceOver.device.administration.active.two_keys';
type GraceOver = { type: typeof GRACE_OVER };

/** Entries only for administration and for the end of a key's grace period; a device's reports are telemetry. */
function note(
  event: DeviceEvent | GraceOver,
  before: DeviceContext | undefined,
  after: DeviceContext,
): JsonObject | null {
  switch (event.type) {
    case 'register':
      return {
        device_type: after.deviceType,
        category: after.category,
        home_id: after.homeId,
        room_id: after.roomId,
        key_version: after.keyVersion,
        signing_alg: after.signingAlg,
        manifest_version: after.manifestVersion,
      };
    case 'patch': {
      const { name, homeId, roomId, metadata } = event.changes;
      return dropUndefined({ name, home_id: homeId, room_id: roomId, metadata });
    }
    case 'rotate':
      return { key_version: after.keyVersion, signing_alg: after.signingAlg, grace_until: event.graceUntil };
    case 'revoke':
      // The former place, so that it can be restored after a reinstatement.
      return dropUndefined({ reason: event.reason, home_id: before?.homeId, room_id: before?.roomId });
    case 'reinstate':
      return { reason: event.reason, key_version: after.keyVersion, signing_alg: after.signingAlg };
    case 'delete':
      return {};
    case 'manifest.register':
    case 'manifest.update':
      return { manifest_version: after.manifestVersion, actions: event.manifest.capabilities.map((one) => one.action) };
    case GRACE_OVER:
      return { key_version: before?.grace?.keyVersion ?? null };
    default:
      return null;
  }
}

const dropUndefined = (data: Record<string, Json | undefined>): JsonObject =>
  Object.fromEntries(Object.entries(data).filter((entry): entry is [string, Json] => entry[1] !== undefined));

function journal(
  event: MachineEvent,
  before: Snapshot<DeviceContext> | null,
  after: Snapshot<DeviceContext>,
): JournalNote | null {
  if (before === after) return null;
  const data = note(event as DeviceEvent, before?.context, after.context);
  return data && { data };
}

export const deviceDefinition: MachineDefinition<DeviceContext> = {
  kind: 'device',
  version: 1,
  machine: deviceMachine,
  tenantOf: (context) => context.tenantId,
  toStored,
  liveFields: new Set(['state', 'stateVersion', 'reported', 'replay']),
  fromStored,
  columns(snapshot) {
    const { deviceType, homeId, roomId, category, firmware, createdAt } = snapshot.context;
    const administration = administrationOf(snapshot);
    return {
      device_type: deviceType,
      home_id: homeId,
      room_id: roomId,
      category,
      firmware,
      revoked: administration === 'revoked' || administration === 'deleted',
      deleted: administration === 'deleted',
      online: isOnline(snapshot),
      created_at: createdAt,
    };
  },
  journal,
  canPassivate: (snapshot) => administrationOf(snapshot) === 'deleted',
  isTransient: (event) => event.type === 'heartbeat.received',
  toAdminView: (context) => ({
    id: context.id,
    tenant_id: context.tenantId,
    device_type: context.deviceType,
    category: context.category,
    name: context.name,
    home_id: context.homeId,
    room_id: context.roomId,
    metadata: context.metadata,
    firmware: context.firmware,
    created_at: isoTime(context.createdAt),
    signing_alg: context.signingAlg,
    key_version: context.keyVersion,
    grace: context.grace && { key_version: context.grace.keyVersion, until: isoTime(context.grace.until) },
    manifest_version: context.manifestVersion,
    manifest_own: context.manifestOwn,
    state: context.state,
    state_version: context.stateVersion,
    state_bytes: context.reported.bytes,
    reported_at: context.reported.at === null ? null : isoTime(context.reported.at),
    last_sequence: context.replay.highest,
  }),
};
