import { useQueryClient } from '@tanstack/react-query';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { invalidateWhere } from '../api/queries.ts';
import { applyUpdate } from '../api/stream-update.ts';
import { lastSeenAfter } from '../devices/use-device-updates.ts';
import { useStream } from '../live/use-stream.ts';
import type { Tile } from './dashboard-types.ts';

type DeviceBody = ResponseBody<typeof getDevice>;
type Device = DeviceBody['device'];
type Telemetry = NonNullable<Device['telemetry']>;
type Update = { device_id: string } & (
  | { type: 'state_update'; state: Device['state']; timestamp: number }
  | { type: 'presence_update'; online: boolean }
  | ({ type: 'telemetry_update'; device_timestamp?: number; timestamp: number; battery?: number } & Partial<Telemetry>)
  | { type: 'command_update' }
);

/** The first part of the path of a device's data, which tiles and charts share. */
const PATH = '/v1/devices/';

export function tileDeviceIds(tiles: readonly Tile[]): string[] {
  const ids = tiles.flatMap((tile) =>
    'device_id' in tile ? [tile.device_id] : tile.kind === 'chart' ? tile.series.map(({ device_id }) => device_id) : [],
  );
  return [...new Set(ids)].sort();
}

const NO_TELEMETRY: Telemetry = {
  ...{ rssi: null, uptime_s: null, free_heap: null, device_type: null, manifest_version: null },
  mismatches: [],
};

/** What an update changes of a device. */
export function changesOf(update: Exclude<Update, { type: 'command_update' }>, device: Device): Partial<Device> {
  if (update.type === 'presence_update') return { online: update.online };
  const last_seen = lastSeenAfter(device, update.timestamp);
  if (update.type === 'state_update') return { state: update.state, last_seen };
  const { type: _, device_id: __, device_timestamp: ___, timestamp: ____, ...telemetry } = update;
  const { battery = device.battery, ...reported } = telemetry;
  return { last_seen, battery, telemetry: { ...(device.telemetry ?? NO_TELEMETRY), ...reported } };
}

/**
 * Keeps the data of the devices of tiles up to date. After an interruption they are read again. The stream has commands too, so that
 * it is not opened again for the command of a button.
 */
export function useTileDevices(tiles: readonly Tile[], { enabled }: { enabled: boolean }): void {
  const queries = useQueryClient();
  const ids = tileDeviceIds(tiles);
  useStream({
    path: '/ws/state',
    query: { events: 'state,presence,telemetry,command', device_id: ids },
    enabled: enabled && ids.length > 0,
    onMessage(message) {
      const update = message as Update;
      if (update.type === 'command_update') return;
      applyUpdate<DeviceBody>(queries, [PATH + update.device_id], (before) => ({
        ...before,
        device: { ...before.device, ...changesOf(update, before.device) },
      }));
    },
    onOpen: () => void invalidateWhere(queries, (path) => ids.some((id) => path === PATH + id)),
  });
}
