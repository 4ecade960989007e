import { z } from 'zod';
import type { Committed, DeviceSessions } from '../../actors/contract.ts';
import { signingAlgSchema, telemetryMismatchSchema } from '../../domain/enum-schemas.ts';
import type { StoredReport } from '../../domain/history/sample.ts';
import { iso } from '../../domain/iso-time.ts';
import { quoted } from '../../domain/quoted.ts';
import { jsonObject } from '../../domain/request-fields.ts';
import { mismatchesOf, type Telemetry, telemetryFields } from '../../domain/telemetry.ts';
import type { PreviewedDevice } from '../../domain/twin.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import { administrationOf, isOnline } from '../../machines/device-record.ts';
import { pausedUntil } from '../../machines/device-samples.ts';
import type { DeviceContext, DeviceFixed } from '../../machines/device-types.ts';
import type { DeviceLastSeen } from '../../store/contract/devices.ts';
import type { DeviceRow } from '../../store/contract.ts';
import { isoTime, notFound } from '../inputs.ts';
import { reachesCommitted } from '../key-reach.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';

// Devices in answers, and what other operations read from a device's committed state.

export type CommittedDevice = Committed<DeviceContext>;

const entryFields = {
  id: uuid,
  device_type: z.string(),
  home_id: uuid.nullable(),
  room_id: uuid.nullable(),
  firmware: z.string().nullable(),
  last_seen: isoTime.nullable(),
  revoked: z.boolean(),
  tags: z.array(z.string()).meta({ description: 'In the order of their characters' }),
};

/** The device in the preview of a command or of a change. */
export const previewedDeviceSchema = z
  .object({ name: z.string().nullable(), home_id: uuid.nullable(), room_id: uuid.nullable() })
  .meta({ id: 'PreviewedDevice' });

export function previewedDevice({ snapshot }: CommittedDevice): PreviewedDevice {
  const { name, homeId, roomId } = snapshot.context.fixed;
  return { name, home_id: homeId, room_id: roomId };
}

/** The device in the sentences of a preview. */
export function nameInPreview({ snapshot }: CommittedDevice): string {
  const { id, name } = snapshot.context.fixed;
  return name === null ? id : quoted(name);
}

/** Telemetry that waits for the next commit of the device. */
export const pendingReports = ({ snapshot }: CommittedDevice): StoredReport[] =>
  snapshot.context.live.samples.pending.map(([at, time, sequence, telemetry]) => [at, time, sequence, {}, telemetry]);

/** An entry of the list: the specification's fields, plus name and online, which people look for. */
export const deviceEntry = z
  .object({ ...entryFields, name: z.string().nullable(), online: z.boolean() })
  .meta({ id: 'DeviceEntry' });

/** Values of `hello` and `heartbeat`; each member is the last one reported. */
const deviceTelemetry = z
  .object({
    rssi: z.number().nullable().meta({ description: 'Signal strength in dBm' }),
    uptime_s: z.number().nullable().meta({ description: 'Seconds since it started, at its last report' }),
    free_heap: z.number().nullable().meta({ description: 'Free memory in bytes' }),
    device_type: z.string().nullable().meta({ description: 'The type that its last `hello` named' }),
    manifest_version: z
      .int()
      .nullable()
      .meta({ description: 'The version of the manifest that it was built for, by its last `hello`' }),
    mismatches: z
      .array(telemetryMismatchSchema)
      .meta({ description: 'Members that are not those of the device: the firmware may be of another type or older' }),
  })
  .meta({ id: 'DeviceTelemetry' });

export const deviceRecord = z
  .object({
    ...entryFields,
    name: z.string().nullable(),
    metadata: jsonObject,
    online: z.boolean(),
    state: jsonObject,
    state_version: z.int(),
    battery: z.number().nullable(),
    telemetry: deviceTelemetry.nullable().meta({ description: 'Null if the device has reported nothing of it' }),
    history_paused_until: isoTime.nullable().meta({
      description: 'Set if it has reported more than it may store a day: its reports leave no samples until then',
    }),
    key_version: z.int(),
    signing_alg: signingAlgSchema,
    manifest_version: z.int().nullable(),
    created_at: isoTime,
  })
  .meta({ id: 'Device' });

export function deviceEntryOf(row: DeviceRow, sessions: DeviceSessions): z.infer<typeof deviceEntry> {
  return {
    id: row.id,
    device_type: row.deviceType,
    home_id: row.homeId,
    room_id: row.roomId,
    firmware: row.firmware,
    last_seen: time(sessions.lastSeen(row.id) ?? row.lastSeen),
    revoked: row.revoked,
    tags: [...row.tags],
    name: row.name,
    online: row.online,
  };
}

type DeviceRecord = z.infer<typeof deviceRecord>;

/** The full record. Last seen, battery and telemetry are not in the committed state (see heartbeats in ARCHITECTURE.md). */
export async function deviceRecordOf(
  services: Pick<Services, 'clock' | 'store' | 'sessions'>,
  device: CommittedDevice,
): Promise<DeviceRecord> {
  const [record] = await deviceRecordsOf(services, [device]);
  return record as DeviceRecord;
}

/** The records of several devices, in order, with one query. */
export async function deviceRecordsOf(
  { clock, store, sessions }: Pick<Services, 'clock' | 'store' | 'sessions'>,
  devices: readonly CommittedDevice[],
): Promise<DeviceRecord[]> {
  if (devices.length === 0) return [];
  const seen = await store.devices.lastSeen(devices.map(({ ref }) => ref.id));
  const now = clock.now();
  return devices.map((device) => recordWith({ sessions, now }, device, seen.get(device.ref.id)));
}

function recordWith(
  { sessions, now }: { sessions: DeviceSessions; now: EpochMs },
  device: CommittedDevice,
  seen: DeviceLastSeen | undefined,
): DeviceRecord {
  const { fixed, live } = device.snapshot.context;
  return {
    id: fixed.id,
    device_type: fixed.deviceType,
    home_id: fixed.homeId,
    room_id: fixed.roomId,
    firmware: fixed.firmware,
    last_seen: time(sessions.lastSeen(fixed.id) ?? seen?.lastSeen),
    revoked: isRevoked(device),
    tags: [...(fixed.tags ?? [])],
    name: fixed.name,
    metadata: fixed.metadata,
    online: isOnline(device.snapshot),
    state: live.state,
    state_version: live.stateVersion,
    battery: sessions.battery(fixed.id) ?? seen?.battery ?? null,
    telemetry: telemetryOf({ ...seen?.telemetry, ...sessions.telemetry(fixed.id) }, fixed),
    history_paused_until: time(pausedUntil(live.samples, now)),
    key_version: fixed.keyVersion,
    signing_alg: fixed.signingAlg,
    manifest_version: fixed.manifestVersion === 0 ? null : fixed.manifestVersion,
    created_at: iso(fixed.createdAt),
  };
}

function telemetryOf(reported: Telemetry, device: DeviceFixed): DeviceRecord['telemetry'] {
  const fields = telemetryFields(reported);
  if (Object.keys(fields).length === 0) return null;
  return {
    ...{ rssi: null, uptime_s: null, free_heap: null, device_type: null, manifest_version: null },
    ...fields,
    mismatches: mismatchesOf(reported, device),
  };
}

const time = (at: EpochMs | null | undefined): string | null => (at ? iso(at) : null);

export const isRevoked = ({ snapshot }: CommittedDevice): boolean => administrationOf(snapshot) === 'revoked';

/** Whether the tenant has this device; a deleted one belongs to no tenant. */
export const belongsTo = (device: CommittedDevice, tenantId: Uuid): boolean =>
  device.snapshot.context.fixed.tenantId === tenantId && administrationOf(device.snapshot) !== 'deleted';

/** Whether the caller's tenant has this device and the caller's credential reaches it. */
export const isVisibleTo = (device: CommittedDevice, caller: Caller): boolean =>
  belongsTo(device, tenantOf(caller)) && reachesCommitted(caller, device);

/**
 * The caller's device, from memory if it is live. The same refusal for a missing device, for another tenant's, and for one
 * that the caller's key does not reach.
 */
export async function findDevice({ actors }: Pick<Services, 'actors'>, caller: Caller, id: Uuid) {
  const ref = { kind: 'device', id } as const;
  const device = actors.peek<DeviceContext>(ref) ?? (await actors.read<DeviceContext>(ref));
  if (device && isVisibleTo(device, caller)) return { ok: true, value: device } as const;
  return notFound('device');
}
