import { useQueryClient } from '@tanstack/react-query';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { invalidateWhere } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';
import type { Tile } from './dashboard-types.ts';

type DeviceBody = ResponseBody<typeof getDevice>;
type Device = DeviceBody['device'];
type Update = { device_id: string } & (
  | { type: 'state_update'; state: Device['state']; timestamp: number }
  | { type: 'presence_update'; online: boolean }
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

/**
 * Keeps the data of the devices of tiles up to date. After an interruption they are read again. The stream has commands too, so that
 * it is not opened again for the command of a button.
 */
export function useTileDevices(tiles: readonly Tile[], { enabled }: { enabled: boolean }): void {
  const queries = useQueryClient();
  const ids = tileDeviceIds(tiles);
  useStream({
    path: '/ws/state',
    query: { events: 'state,presence,command', device_id: ids },
    enabled: enabled && ids.length > 0,
    onMessage(message) {
      const update = message as Update;
      if (update.type === 'command_update') return;
      const changes: Partial<Device> =
        update.type === 'state_update'
          ? { state: update.state, last_seen: new Date(update.timestamp).toISOString() }
          : { online: update.online };
      queries.setQueryData<DeviceBody>(
        [PATH + update.device_id],
        (before) => before && { ...before, device: { ...before.device, ...changes } },
      );
    },
    onOpen: () => void invalidateWhere(queries, (path) => ids.some((id) => path === PATH + id)),
  });
}
