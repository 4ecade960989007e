import { useQueryClient } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import { Link } from 'wouter';
import { pathNamesOf } from '../../../src/domain/history/sample.ts';
import { seriesUnit } from '../../../src/domain/units.ts';
import type { getDevice, listDevices } from '../../../src/operations/devices/devices.ts';
import type { getRoom } from '../../../src/operations/homes/homes.ts';
import type { ConfirmationListBody, ResponseBody } from '../api/answer-types.ts';
import { FALLBACK_MS, invalidatePaths, useGet } from '../api/queries.ts';
import { applyUpdate } from '../api/stream-update.ts';
import { useBatchedRefetch } from '../api/use-batched-refetch.ts';
import { propertyLabel } from '../charts/use-series-info.ts';
import { deviceHref, deviceNameOf } from '../devices/device-name.tsx';
import { isSteppedIn, stateNames, stateUnits } from '../devices/device-units.ts';
import { stateWord } from '../devices/main-value.ts';
import { type ManifestRecord, manifestPath } from '../devices/manifest.tsx';
import { deviceValueAt } from '../devices/telemetry.tsx';
import { useStream } from '../live/use-stream.ts';
import { useSession } from '../session.tsx';
import { Loading } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { LastSeen } from '../ui/time.tsx';
import { formatValue } from '../ui/values.tsx';
import { CommandTile } from './command-tile.tsx';
import type { Tile, TileOf } from './dashboard-types.ts';
import { useOutdatedSince } from './freshness.ts';
import { Markdown } from './markdown.tsx';
import { MissingNote } from './missing-note.tsx';

// The chart library is loaded with the first chart.
const ChartTile = lazy(() => import('./chart-tile.tsx').then(({ ChartTile }) => ({ default: ChartTile })));
const TileTrend = lazy(() => import('./chart-tile.tsx').then(({ TileTrend }) => ({ default: TileTrend })));

const MAX_LISTED = 20;

/** The content of a tile of any kind. */
export function TileBody({ tile }: { tile: Tile }) {
  const { may } = useSession();
  const isOutdated = useOutdatedSince() !== null;
  if (tile.kind === 'text') return <Markdown text={tile.text} />;
  if (!may('user')) return <p className="quiet">Your role cannot see devices.</p>;
  switch (tile.kind) {
    case 'value':
    case 'sparkline':
      return <ValueTile tile={tile} />;
    case 'chart':
      return (
        <Suspense fallback={<Loading what="Loading chart" />}>
          <ChartTile tile={tile} />
        </Suspense>
      );
    case 'room':
      return <RoomTile tile={tile} />;
    case 'command':
      return <CommandTile tile={tile} isOffline={isOutdated} />;
    case 'confirmations':
      return <ConfirmationsTile rows={tile.h} />;
  }
}

function ValueTile({ tile }: { tile: TileOf<'value'> | TileOf<'sparkline'> }) {
  const { data, error } = useGet<ResponseBody<typeof getDevice>>(`/v1/devices/${tile.device_id}`);
  const manifest = useGet<ManifestRecord>(manifestPath(tile.device_id), { enabled: data !== undefined });
  if (data === undefined || error?.status === 404) return <MissingNote problem={error} what="device" />;
  const { device } = data;
  const names = pathNamesOf(tile.property);
  const value = deviceValueAt(device, tile.property);
  const unitOf = stateUnits(manifest.data);
  const name = names.at(-1) ?? '';
  const text =
    stateWord(name, value) ?? formatValue(value, names.join('.'), (path) => unitOf(path) ?? seriesUnit(tile.property));
  return (
    <>
      <p className="tile-value">{text}</p>
      {tile.kind === 'sparkline' && (
        <Suspense fallback={null}>
          <TileTrend
            deviceId={tile.device_id}
            property={tile.property}
            name={name}
            isStepped={isSteppedIn(manifest.data)(tile.property)}
          />
        </Suspense>
      )}
      <p className="quiet small">
        <Link href={deviceHref(device.id)}>{deviceNameOf(device)}</Link> ·{' '}
        {tile.property.startsWith('$')
          ? propertyLabel(tile.property, manifest.data)
          : stateNames(manifest.data)(names.join('.'), name)}
        {!device.online && (
          <>
            {' '}
            · offline, <LastSeen at={device.last_seen} />
          </>
        )}
      </p>
    </>
  );
}

type DeviceList = ResponseBody<typeof listDevices>;

/** The devices of a room, whose presence a stream keeps up to date; another device is found by polling. */
function useRoomDevices({ home_id, room_id }: TileOf<'room'>, enabled: boolean): DeviceList | undefined {
  const queries = useQueryClient();
  const path = `/v1/devices?home_id=${home_id}&room_id=${room_id}&revoked=false&limit=${MAX_LISTED}`;
  const { data } = useGet<DeviceList>(path, { refetchIntervalMs: FALLBACK_MS, enabled });
  const ids = data?.devices.map(({ id }) => id).sort() ?? [];
  useStream({
    path: '/ws/state',
    query: { events: 'presence', device_id: ids },
    enabled: ids.length > 0,
    onMessage(message) {
      const { device_id: id, online } = message as { device_id: string; online: boolean };
      applyUpdate<DeviceList>(queries, [path], (before) => ({
        ...before,
        devices: before.devices.map((one) => (one.id === id ? { ...one, online } : one)),
      }));
    },
    onOpen: () => void invalidatePaths(queries, [path]),
  });
  return data;
}

function RoomTile({ tile }: { tile: TileOf<'room'> }) {
  const { home_id, room_id } = tile;
  const room = useGet<ResponseBody<typeof getRoom>>(`/v1/homes/${home_id}/rooms/${room_id}`);
  const data = useRoomDevices(tile, room.data !== undefined);
  if (room.data === undefined || room.error?.status === 404) return <MissingNote problem={room.error} what="room" />;
  if (data === undefined) return <Loading what="Loading room" />;
  const link = <Link href={`/homes/${home_id}/rooms/${room_id}`}>{room.data.room.name}</Link>;
  if (data.devices.length === 0) return <p className="quiet small">{link} · no devices</p>;
  const online = data.devices.filter((one) => one.online).length;
  return (
    <>
      <p className="quiet small">
        {link} ·{' '}
        {data.next_cursor === null
          ? `${online} of ${data.devices.length} online`
          : `first ${data.devices.length} devices, ${online} online`}
      </p>
      <ul className="tile-list">
        {data.devices.map((device) => (
          <li key={device.id}>
            <Link href={deviceHref(device.id)}>{deviceNameOf(device)}</Link>
            <span className="quiet">{device.online ? 'online' : 'offline'}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** So many updates cause one request. */
const BATCH_MS = 500;

/** Shows so many entries that the tile keeps about its height. */
function ConfirmationsTile({ rows }: { rows: number }) {
  const path = `/v1/confirmations?limit=${MAX_LISTED}`;
  const { data, error } = useGet<ConfirmationListBody>(path, { refetchIntervalMs: FALLBACK_MS });
  const refetch = useBatchedRefetch([path], BATCH_MS);
  useStream({ path: '/ws/state', query: { events: 'confirmation' }, onMessage: refetch, onOpen: refetch });
  if (data === undefined) return <MissingNote problem={error} what="list" />;
  if (data.confirmations.length === 0) return <p className="quiet">Nothing waits for confirmation.</p>;
  const shown = data.confirmations.slice(0, Math.max(1, rows - 1));
  return (
    <ul className="tile-list">
      {shown.map(({ command_id, action, preview }) => (
        <li key={command_id}>
          <Link href="/confirmations">{sentenceCase(action)}</Link>
          <span className="quiet">{preview.device?.name}</span>
        </li>
      ))}
      {data.confirmations.length > shown.length && (
        <li>
          <Link href="/confirmations">Show all</Link>
          <span className="quiet">{data.confirmations.length - shown.length} more</span>
        </li>
      )}
    </ul>
  );
}
