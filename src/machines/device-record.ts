import { z } from 'zod';
import { signingAlgs } from '../domain/device-key.ts';
import { NOTHING_KEPT } from '../domain/history/rules.ts';
import type { SampleValue } from '../domain/history/sample.ts';
import { iso } from '../domain/iso-time.ts';
import { type StoredWindow, windowFromJson, windowToJson } from '../domain/replay-window.ts';
import { twinOf } from '../domain/twin.ts';
import { uuid } from '../domain/uuid-schema.ts';
import type { EpochMs, Json, JsonObject } from '../domain/values.ts';
import type { DeviceColumns } from './actor-columns.ts';
import { changeIn } from './change-note.ts';
import {
  assertEmpty,
  causeOf,
  type JournalNote,
  type MachineDefinition,
  type MachineEvent,
  type Snapshot,
  type StoredContext,
} from './definition.ts';
import { type DeviceDelay, deviceMachine } from './device.ts';
import {
  type DeviceContext,
  type DeviceEvent,
  type DeviceFixed,
  type DeviceLive,
  type DeviceSamples,
  NO_SAMPLES,
} from './device-types.ts';
import type { ReportOrder } from './report-order.ts';
import { count, epochMs, storedForm, storedJsonObject } from './stored-schemas.ts';

// Stored form, journal entries and admin view of a device.

export type Administration = 'unregistered' | 'active' | 'revoked' | 'deleted';

export function administrationOf({ value }: Pick<Snapshot, 'value'>): Administration {
  const { administration } = value as { administration: Administration | { active: Json } };
  return typeof administration === 'string' ? administration : 'active';
}

export const isOnline = ({ value }: Pick<Snapshot, 'value'>): boolean => (value as { link: Json }).link === 'online';

interface StoredDevice {
  fixed: DeviceFixed;
  live: StoredLive;
}

/** Members that are stored as they are, and the stored forms of the others. */
interface StoredLive extends Omit<DeviceLive, 'reported' | 'replay' | 'samples'> {
  reportedAt: EpochMs | null;
  replay: StoredReplay;
  /** Absent before the first report, and in rows of earlier builds. */
  samples?: StoredSamples;
}

interface StoredSamples extends Pick<DeviceSamples, 'day' | 'bytes'> {
  full?: true;
  kept?: [string, SampleValue][];
  pending?: [EpochMs, EpochMs, number, JsonObject][];
}

interface StoredReplay extends StoredWindow {
  order?: StoredOrder;
}

/** As pairs, because a property may have any name, including `__proto__`. */
interface StoredOrder {
  full: number;
  properties: [string, number][];
}

const stored = storedForm<StoredDevice>()(
  {
    id: uuid,
    tenantId: uuid,
    deviceType: z.string(),
    category: z.string().nullable(),
    name: z.string().nullable(),
    homeId: uuid.nullable(),
    roomId: uuid.nullable(),
    metadata: storedJsonObject,
    firmware: z.string().nullable(),
    createdAt: epochMs,
    signingAlg: z.enum(signingAlgs),
    keyVersion: count,
    grace: z.strictObject({ keyVersion: count, until: epochMs }).nullable(),
    manifestVersion: count,
    manifestOwn: z.boolean(),
    history: z
      .array(
        z.strictObject({
          property: z.string(),
          mode: z.enum(['change', 'off']),
          deadband: z.number().exactOptional(),
        }),
      )
      .readonly()
      .exactOptional(),
    tags: z.array(z.string()).readonly().exactOptional(),
  },
  {
    state: storedJsonObject,
    stateVersion: count,
    reportedAt: epochMs.nullable(),
    replay: z.strictObject({
      highest: count,
      slots: z.string(),
      order: z.strictObject({ full: count, properties: z.array(z.tuple([z.string(), count])) }).exactOptional(),
    }),
    samples: z
      .strictObject({
        day: count,
        bytes: count,
        full: z.literal(true).exactOptional(),
        kept: z.array(z.tuple([z.string(), z.union([z.number(), z.boolean(), z.string()])])).exactOptional(),
        pending: z.array(z.tuple([epochMs, epochMs, count, storedJsonObject])).exactOptional(),
      })
      .exactOptional(),
  },
);

// `Required`, so that an optional member is not forgotten either.

function toStored({ fixed, live: { state, stateVersion, reported, replay, samples } }: DeviceContext): StoredContext {
  const live: Omit<Required<StoredLive>, 'samples'> & Pick<StoredLive, 'samples'> = {
    state,
    stateVersion,
    reportedAt: reported.at,
    replay: { ...windowToJson(replay), ...(reported.order && { order: orderToJson(reported.order) }) },
    ...(samples !== NO_SAMPLES && { samples: samplesToJson(samples) }),
  };
  return stored.write({ fixed, live });
}

function fromStored(json: JsonObject): DeviceContext {
  const {
    fixed,
    live: { state, stateVersion, reportedAt: at, replay, samples },
  } = stored.read(json);
  const { order: given, ...window } = replay;
  const order = given ? { full: given.full, properties: Object.fromEntries(given.properties) } : null;
  const reported = { at, bytes: twinOf(state).bytes, order };
  const live: Required<DeviceLive> = {
    state,
    stateVersion,
    reported,
    replay: windowFromJson(window),
    samples: samplesFromJson(samples),
  };
  return { fixed, live };
}

const orderToJson = ({ full, properties }: ReportOrder): StoredOrder => ({
  full,
  properties: Object.entries(properties),
});

const samplesToJson = ({ day, bytes, isFull, kept, pending }: DeviceSamples): StoredSamples => ({
  day,
  bytes,
  ...(isFull && { full: true }),
  ...(kept.size > 0 && { kept: [...kept] }),
  ...(pending.length > 0 && { pending: pending.map((entry) => [...entry]) }),
});

function samplesFromJson(stored: StoredSamples | undefined): DeviceSamples {
  if (stored === undefined) return NO_SAMPLES;
  const { day, bytes, full = false, kept, pending = [] } = stored;
  return { day, bytes, isFull: full, kept: kept === undefined ? NOTHING_KEPT : new Map(kept), pending };
}

/** Entries only for administration and for the end of a key's grace period; a device's reports are telemetry. */
function note(
  event: DeviceEvent | { type: DeviceDelay },
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
        ...(fixed.tags && { tags: [...fixed.tags] }),
      };
    case 'patch': {
      const { name, homeId, roomId, metadata } = event.changes;
      const tags = event.tags && [...(fixed.tags ?? [])];
      return dropUndefined({ name, home_id: homeId, room_id: roomId, metadata, tags });
    }
    case 'rotate':
      return {
        key_version: fixed.keyVersion,
        signing_alg: fixed.signingAlg,
        grace_until: event.graceUntil,
        ...changeIn(event),
      };
    case 'revoke':
      return { ...dropUndefined({ reason: event.reason }), ...changeIn(event) };
    case 'reinstate':
      return {
        ...{ reason: event.reason, key_version: fixed.keyVersion, signing_alg: fixed.signingAlg },
        ...changeIn(event),
      };
    case 'delete':
      return {};
    case 'manifest.register':
    case 'manifest.update':
      return {
        manifest_version: fixed.manifestVersion,
        actions: event.manifest.capabilities.map((one) => one.action),
        ...changeIn(event),
      };
    case 'history.import': {
      const times = event.reports.map(({ deviceAt }) => deviceAt).sort((one, other) => one - other);
      return { reports: times.length, from: iso(times[0] ?? 0), to: iso(times.at(-1) ?? 0) };
    }
    case 'graceOver':
      return { key_version: before?.fixed.grace?.keyVersion ?? null };
    case 'presence.lost':
    case 'heartbeat.received':
    case 'hello.received':
    case 'state.reported':
    case 'ack.reported':
    case 'message.rejected':
      return null;
    default:
      event satisfies never;
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
  // An import changes the history alone.
  if (before === after && event.type !== 'history.import') return null;
  const data = note(causeOf<DeviceEvent, DeviceDelay>(event), before?.context, after.context);
  return data && { data };
}

export const deviceDefinition: MachineDefinition<DeviceContext, DeviceColumns> = {
  kind: 'device',
  version: 1,
  machine: deviceMachine,
  tenantOf: (context) => context.fixed.tenantId,
  toStored,
  fromStored,
  storedSchema: stored.schema,
  columns(snapshot): DeviceColumns {
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
  toAdminView({ fixed, live }) {
    const { id, tenantId, deviceType, category, name, homeId, roomId, metadata, firmware, ...moreFixed } = fixed;
    const { createdAt, signingAlg, keyVersion, grace, manifestVersion, manifestOwn, history, tags, ...otherFixed } =
      moreFixed;
    const { state, stateVersion, reported, replay, samples, ...otherLive } = live;
    assertEmpty(otherFixed, otherLive);
    return {
      id,
      tenant_id: tenantId,
      device_type: deviceType,
      category,
      name,
      home_id: homeId,
      room_id: roomId,
      metadata,
      firmware,
      created_at: iso(createdAt),
      signing_alg: signingAlg,
      key_version: keyVersion,
      grace: grace && { key_version: grace.keyVersion, until: iso(grace.until) },
      manifest_version: manifestVersion,
      manifest_own: manifestOwn,
      history: (history ?? []).map((rule) => ({ ...rule })),
      tags: [...(tags ?? [])],
      state,
      state_version: stateVersion,
      state_bytes: reported.bytes,
      reported_at: reported.at === null ? null : iso(reported.at),
      last_sequence: replay.highest,
      samples: { ...samplesToJson(samples) } as JsonObject,
    };
  },
};
