import { useQueryClient } from '@tanstack/react-query';
import { useId, useMemo, useRef, useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import type { listDevices } from '../../../src/operations/devices/devices.ts';
import type { listHomes } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { updatePages, usePagedQuery } from '../api/paged-query.ts';
import { invalidatePaths, useGet } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { counted } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { type Column, VirtualTable } from '../ui/virtual-table.tsx';
import { AddDeviceButton, AddDeviceDialog } from './add-device.tsx';
import { deviceHref, deviceNameOf } from './device-name.tsx';
import { HomesNavigation } from './homes-navigation.tsx';
import './list.css';

export type DeviceListPage = ResponseBody<typeof listDevices>;
type Device = DeviceListPage['devices'][number];

const PAGE = 200;

function pathOf(query: URLSearchParams): string {
  const params = new URLSearchParams({ limit: `${PAGE}` });
  for (const [name, filter] of [
    ['home', 'home_id'],
    ['room', 'room_id'],
    ['online', 'online'],
  ] as const) {
    const value = query.get(name);
    if (value !== null) params.set(filter, value);
  }
  return `/v1/devices?${params}`;
}

/** List of devices, filtered by home and room. */
export function DevicesPage() {
  const [query, setQuery] = useSearchParams();
  const path = pathOf(query);
  const { firstPage, rows, isComplete, problem, loadMore, reload } = usePagedQuery<DeviceListPage, Device>(
    path,
    ({ devices }) => devices,
  );
  useLivePresence(path, reload);
  const search = (query.get('find') ?? '').trim().toLowerCase();
  const shown = useMemo(
    () =>
      search === ''
        ? rows
        : rows.filter(({ name, id, device_type }) =>
            `${name ?? ''} ${device_type} ${id}`.toLowerCase().includes(search),
          ),
    [rows, search],
  );
  const isFiltered = search !== '' || ['home', 'room', 'online'].some((name) => query.has(name));
  const columns = useColumns();
  const [isAdding, setAdding] = useState(false);
  const add = (): void => setAdding(true);
  return (
    <div className="devices">
      {isAdding && <AddDeviceDialog onClose={() => setAdding(false)} />}
      <header className="page-head">
        <div>
          <h1>Devices</h1>
          <p className="quiet">Each device has a twin: its last reported state and its capabilities.</p>
        </div>
        <p className="quiet" role="status">
          {firstPage === null ? '' : counted(firstPage.count, 'device')}
          {isFiltered && firstPage !== null && `, ${shown.length.toLocaleString()}${isComplete ? '' : '+'} shown`}
        </p>
        {firstPage !== null && firstPage.count > 0 && <AddDeviceButton onClick={add} />}
      </header>
      <div className="devices-body">
        <HomesNavigation query={query} />
        <div className="devices-list">
          <Filters query={query} change={setQuery} />
          {problem !== null && rows.length === 0 ? (
            <LoadError problem={problem} retry={reload} />
          ) : firstPage === null ? (
            <Loading what="Loading devices" />
          ) : shown.length === 0 ? (
            <NoDevices isFiltered={isFiltered} isComplete={isComplete} loadMore={loadMore} add={add} />
          ) : (
            <VirtualTable
              label="Devices"
              columns={columns}
              rows={shown}
              keyOf={({ id }) => id}
              isComplete={isComplete}
              loadMore={loadMore}
            />
          )}
        </div>
      </div>
    </div>
  );
}

function useColumns(): readonly Column<Device>[] {
  const { data } = useGet<ResponseBody<typeof listHomes>>('/v1/homes?limit=200');
  return useMemo(() => {
    const homes = new Map(data?.homes.map(({ id, home_name }) => [id, home_name]));
    return [
      {
        title: 'Device',
        width: 'minmax(9rem, 2fr)',
        cell: (device) => <Link href={deviceHref(device.id)}>{deviceNameOf(device)}</Link>,
      },
      {
        title: 'Presence',
        width: 'minmax(6.5rem, 0.8fr)',
        cell: ({ online, revoked }) =>
          revoked ? (
            <Pill tone="bad">revoked</Pill>
          ) : online ? (
            <Pill tone="good">online</Pill>
          ) : (
            <Pill tone="quiet">offline</Pill>
          ),
      },
      { title: 'Type', width: 'minmax(7rem, 1fr)', hideOnNarrow: true, cell: ({ device_type }) => device_type },
      {
        title: 'Home',
        width: 'minmax(7rem, 1fr)',
        hideOnNarrow: true,
        cell: ({ home_id }) => (home_id === null ? '—' : (homes.get(home_id) ?? '…')),
      },
      { title: 'Last seen', width: '7.5rem', hideOnNarrow: true, cell: ({ last_seen }) => <Time at={last_seen} /> },
      { title: 'Firmware', width: '6rem', hideOnNarrow: true, cell: ({ firmware }) => firmware ?? '—' },
    ];
  }, [data]);
}

interface Presence {
  device_id: string;
  online: boolean;
  timestamp: number;
}

/** Applies presence updates to the list, batched over 200 ms. */
function useLivePresence(path: string, reload: () => void): void {
  const queries = useQueryClient();
  const pending = useRef(new Map<string, Presence>());
  useStream({
    path: '/ws/state',
    query: { events: 'presence' },
    onMessage(message) {
      const presence = message as Presence;
      pending.current.set(presence.device_id, presence);
      if (pending.current.size > 1) return;
      setTimeout(() => {
        const updates = pending.current;
        pending.current = new Map();
        updatePages<DeviceListPage>(queries, path, (page) => {
          if (!page.devices.some(({ id }) => updates.has(id))) return page;
          return { ...page, devices: page.devices.map((device) => withPresence(device, updates.get(device.id))) };
        });
      }, 200);
    },
    onOpen() {
      reload();
      void invalidatePaths(queries, ['/v1/homes']);
    },
  });
}

const withPresence = (device: Device, update: Presence | undefined): Device =>
  update === undefined
    ? device
    : { ...device, online: update.online, last_seen: new Date(update.timestamp).toISOString() };

const presences = [
  [null, 'All'],
  ['true', 'Online'],
  ['false', 'Offline'],
] as const;

type ChangeQuery = (change: (before: URLSearchParams) => URLSearchParams, options?: { replace?: boolean }) => void;

/** Filters are in the URL, so that they can be bookmarked and shared. */
function Filters({ query, change }: { query: URLSearchParams; change: ChangeQuery }) {
  const findId = useId();
  const set = (name: string, value: string | null): void =>
    change(
      (before) => {
        const after = new URLSearchParams(before);
        if (value === null || value === '') after.delete(name);
        else after.set(name, value);
        return after;
      },
      { replace: true },
    );
  return (
    <search className="devices-filters">
      <fieldset className="choices">
        <legend className="unseen">Presence</legend>
        {presences.map(([value, title]) => (
          <label key={title}>
            <input
              type="radio"
              name="online"
              checked={query.get('online') === value}
              onChange={() => set('online', value)}
            />
            <span>{title}</span>
          </label>
        ))}
      </fieldset>
      <label htmlFor={findId} className="unseen">
        Search by name, type or ID
      </label>
      <input
        id={findId}
        type="search"
        placeholder="Search by name, type or ID"
        value={query.get('find') ?? ''}
        onChange={({ target }) => set('find', target.value)}
      />
    </search>
  );
}

interface NoDevicesProps {
  isFiltered: boolean;
  isComplete: boolean;
  loadMore(): void;
  /** Opens the dialog that adds a device. */
  add(): void;
}

const NoDevices = ({ isFiltered, isComplete, loadMore, add }: NoDevicesProps) =>
  !isFiltered ? (
    <Empty icon="device" title="No devices yet.">
      <p>
        Add one, or simulate some: <code>twinkeep simulate --devices 5</code>
      </p>
      <AddDeviceButton onClick={add} />
    </Empty>
  ) : (
    <Empty icon="search" title="No matching devices.">
      {isComplete ? (
        <Link href="/devices">Show all</Link>
      ) : (
        <button type="button" className="button" onClick={loadMore}>
          Search more
        </button>
      )}
    </Empty>
  );
