import { z } from 'zod';
import { signingAlgs } from '../domain/device-key.ts';
import { iso } from '../domain/iso-time.ts';
import { windowFromJson, windowToJson } from '../domain/replay-window.ts';
import { twinOf } from '../domain/twin.ts';
import type { Json, JsonObject } from '../domain/values.ts';
import type { JournalNote, MachineDefinition, MachineEvent, Snapshot, StoredContext } from './definition.ts';
import { deviceMachine } from './device.ts';
import type { DeviceContext, DeviceEvent } from './device-types.ts';
import type { ReportOrder } from './report-order.ts';
import { count, epochMs, storedJsonObject, storedUuid } from './stored-schemas.ts';

// Stored form, journal entries and admin view of a device.

export type Administration = 'unregistered' | 'active' | 'revoked' | 'deleted';

export function administrationOf({ value }: Pick<Snapshot, 'value'>): Administration {
  const { administration } = value as { administration: Administration | { active: Json } };
  return typeof administration === 'string' ? administration : 'active';
}

export const isOnline = ({ value }: Pick<Snapshot, 'value'>): boolean => (value as { link: Json }).link === 'online';

const stored = z.strictObject({
  id: storedUuid,
  tenantId: storedUuid,
  deviceType: z.string(),
  category: z.string().nullable(),
  name: z.string().nullable(),
  homeId: storedUuid.nullable(),
  roomId: storedUuid.nullable(),
  metadata: storedJsonObject,
  firmware: z.string().nullable(),
  createdAt: epochMs,
  signingAlg: z.enum(signingAlgs),
  keyVersion: count,
  grace: z.strictObject({ keyVersion: count, until: epochMs }).nullable(),
  manifestVersion: count,
  manifestOwn: z.boolean(),
  state: storedJsonObject,
  stateVersion: count,
  reportedAt: epochMs.nullable(),
  replay: z.strictObject({
    highest: count,
    slots: z.string(),
    order: z.strictObject({ full: count, properties: z.array(z.tuple([z.string(), count])) }).optional(),
  }),
});

const toStored = ({ fixed, live: { state, stateVersion, reported, replay } }: DeviceContext): StoredContext => ({
  fixed: fixed as unknown as JsonObject,
  live: {
    state,
    stateVersion,
    reportedAt: reported.at,
    replay: { ...windowToJson(replay), ...(reported.order && { order: orderToJson(reported.order) }) },
  },
});

// As pairs, because a property may have any name, including `__proto__`.
const orderToJson = ({ full, properties }: ReportOrder) => ({ full, properties: Object.entries(properties) });

function fromStored(json: JsonObject): DeviceContext {
  const { state, stateVersion, reportedAt: at, replay, ...fixed } = stored.parse(json);
  const { order: given, ...window } = replay;
  const order = given ? { full: given.full, properties: Object.fromEntries(given.properties) } : null;
  const reported = { at, bytes: twinOf(state).bytes, order };
  return { fixed, live: { state, stateVersion, reported, replay: windowFromJson(window) } };
}

const GRACE_OVER = 'xstate.after.graceOver.device.administration.active.two_keys';
type GraceOver = { type: typeof GRACE_OVER };

/** Entries only for administration and for the end of a key's grace period; a device's reports are telemetry. */
function note(
  event: DeviceEvent | GraceOver,
  before: DeviceContext | undefined,
  after: DeviceContext,
): JsonObject | null {
  const { fixed } = after;
  switch (event.type) {
    case 'register':
      return {
        device_type: fixed.deviceType,
        category: fixed.category,
        home_id: fixed.homeId,
        room_id: fixed.roomId,
        key_version: fixed.keyVersion,
        signing_alg: fixed.signingAlg,
        manifest_version: fixed.manifestVersion,
      };
    case 'patch': {
      const { name, homeId, roomId, metadata } = event.changes;
      return dropUndefined({ name, home_id: homeId, room_id: roomId, metadata });
    }
    case 'rotate':
      return {
        key_version: fixed.keyVersion,
        signing_alg: fixed.signingAlg,
        grace_until: event.graceUntil,
      };
    case 'revoke':
      // The former place, so that it can be restored after a reinstatement.
      return dropUndefined({ reason: event.reason, home_id: before?.fixed.homeId, room_id: before?.fixed.roomId });
    case 'reinstate':
      return { reason: event.reason, key_version: fixed.keyVersion, signing_alg: fixed.signingAlg };
    case 'delete':
      return {};
    case 'manifest.register':
    case 'manifest.update':
      return {
        manifest_version: fixed.manifestVersion,
        actions: event.manifest.capabilities.map((one) => one.action),
      };
    case GRACE_OVER:
      return { key_version: before?.fixed.grace?.keyVersion ?? null };
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
  tenantOf: (context) => context.fixed.tenantId,
  toStored,
  fromStored,
  columns(snapshot) {
    const { deviceType, homeId, roomId, category, firmware, createdAt } = snapshot.context.fixed;
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
  toAdminView: ({ fixed, live }) => ({
    id: fixed.id,
    tenant_id: fixed.tenantId,
    device_type: fixed.deviceType,
    category: fixed.category,
    name: fixed.name,
    home_id: fixed.homeId,
    room_id: fixed.roomId,
    metadata: fixed.metadata,
    firmware: fixed.firmware,
    created_at: iso(fixed.createdAt),
    signing_alg: fixed.signingAlg,
    key_version: fixed.keyVersion,
    grace: fixed.grace && {
      key_version: fixed.grace.keyVersion,
      until: iso(fixed.grace.until),
    },
    manifest_version: fixed.manifestVersion,
    manifest_own: fixed.manifestOwn,
    state: live.state,
    state_version: live.stateVersion,
    state_bytes: live.reported.bytes,
    reported_at: live.reported.at === null ? null : iso(live.reported.at),
    last_sequence: live.replay.highest,
  }),
};
