import { type ConnectionEvent, MAX_CONNECTION_EVENTS } from '../../domain/connection-event.ts';
import type { Telemetry } from '../../domain/telemetry.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { DeviceLastSeen } from '../contract/devices.ts';
import type { PresenceFlush } from '../contract.ts';
import { type Database, idArray } from './database.ts';

/*
 * Time of a device's last message, in small separate rows, so that flushing thousands rewrites neither device states
 * nor an index.
 */

/**
 * A `lastSeen` of 0 leaves the time unchanged. Older times than the row's are ignored, and a key row that a commit is
 * changing is left for the next flush: waiting for it could deadlock. Connections that are stored already are not added
 * again: a flush with an unknown outcome is repeated.
 */
export async function flushPresence(database: Database, rows: readonly PresenceFlush[]): Promise<void> {
  if (rows.length === 0) return;
  await database.write({
    name: 'presence_flush',
    text: `with given as (
        select * from jsonb_to_recordset($1::jsonb)
          as r("deviceId" uuid, "lastSeen" bigint, battery double precision, telemetry jsonb,
            connections jsonb, refusals bigint, keys jsonb)),
      used as (
        select k.device_id, k.key_version, u."usedAt" from given g
        cross join lateral jsonb_to_recordset(g.keys) as u(version integer, "usedAt" bigint)
        join device_keys k on k.device_id = g."deviceId" and k.key_version = u.version
        where u."usedAt" > coalesce(k.last_used_at, 0) for update of k skip locked),
      keys as (
        update device_keys k set last_used_at = u."usedAt" from used u
        where k.device_id = u.device_id and k.key_version = u.key_version),
      connected as (
        insert into device_connections as c (device_id, events)
        select "deviceId", connections from given where connections is not null order by "deviceId"
        on conflict (device_id) do update set events = (
          select jsonb_agg(entry order by n) from (
            select entry, n from jsonb_array_elements(excluded.events || c.events) with ordinality as e(entry, n)
            where n <= jsonb_array_length(excluded.events) or not excluded.events @> jsonb_build_array(entry)
            order by n limit ${MAX_CONNECTION_EVENTS}) newest))
      insert into presence as p (device_id, last_seen, battery, telemetry, refusals)
      select "deviceId", "lastSeen", battery, telemetry, coalesce(refusals, 0) from given order by "deviceId"
      on conflict (device_id) do update set
        last_seen = greatest(p.last_seen, excluded.last_seen),
        battery = coalesce(excluded.battery, p.battery),
        telemetry = coalesce(p.telemetry || excluded.telemetry, excluded.telemetry, p.telemetry),
        refusals = p.refusals + excluded.refusals`,
    values: [JSON.stringify(rows)],
  });
}

interface PresenceRow {
  device_id: Uuid;
  last_seen: EpochMs | null;
  battery: number | null;
  telemetry: Telemetry | null;
  refusals: number;
}

/** Devices without a message so far are left out. */
export async function lastSeen(database: Database, ids: readonly Uuid[]): Promise<Map<Uuid, DeviceLastSeen>> {
  if (ids.length === 0) return new Map();
  const rows = await database.read<PresenceRow>({
    name: 'presence_of',
    text: `select device_id, nullif(last_seen, 0) as last_seen, battery, telemetry, refusals from presence
      where device_id = any($1::uuid[])`,
    values: [idArray(ids)],
  });
  return new Map(rows.map(({ device_id, last_seen: at, ...reported }) => [device_id, { lastSeen: at, ...reported }]));
}

/** The connection histories of devices, newest first. */
export async function connectionsOf(
  database: Database,
  ids: readonly Uuid[],
): Promise<ReadonlyMap<Uuid, readonly ConnectionEvent[]>> {
  if (ids.length === 0) return new Map();
  const rows = await database.read<{ device_id: Uuid; events: readonly ConnectionEvent[] }>({
    name: 'device_connections_of',
    text: 'select device_id, events from device_connections where device_id = any($1::uuid[])',
    values: [idArray(ids)],
  });
  return new Map(rows.map(({ device_id, events }) => [device_id, events]));
}
