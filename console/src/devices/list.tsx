import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useId, useMemo, useRef, useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { listDevices } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { updatePages, usePagedQuery } from '../api/paged-query.ts';
import { invalidatePaths } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { ListControls } from '../ui/list-controls.tsx';
import { tableSorting, useListView } from '../ui/list-view.ts';
import { type ChangeQuery, setFilters } from '../ui/query-filters.ts';
import { counted } from '../ui/text-format.ts';
import { AddDeviceButton, AddDeviceDialog } from './add-device.tsx';
import { DeviceTable } from './bulk/device-table.tsx';
import { useDeviceColumns } from './columns.tsx';
import { type LoadedValues, useDeviceValues, VALUES_KEY } from './device-values.ts';
import { HomesNavigation } from './homes-navigation.tsx';
import { TagFilters } from './tag-filter.tsx';
import type { ListedDevice } from './use-all-devices.ts';
import { lastSeenAfter } from './use-device-updates.ts';
import './list.css';

export type DeviceListPage = ResponseBody<typeof listDevices>;

const PAGE = 200;

/** Above this number of devices, the states in the list are those of its loading. */
const MAX_LIVE_STATES = 500;

/** The filters of the address, as the API names them. */
function filterOf(query: URLSearchParams): string {
  const params = new URLSearchParams();
  for (const [name, filter] of [
    ['home', 'home_id'],
    ['room', 'room_id'],
    ['online', 'online'],
  ] as const) {
    const value = query.get(name);
    if (value !== null) params.set(filter, value);
  }
  for (const tag of query.getAll('tag')) params.append('tag', tag);
  return `${params}`;
}

const pathOf = (query: URLSearchParams): string =>
  `/v1/devices?${new URLSearchParams([['limit', `${PAGE}`], ...new URLSearchParams(filterOf(query))])}`;

/** List of devices, filtered by home and room. */
export function DevicesPage() {
  const [query, setQuery] = useSearchParams();
  const path = pathOf(query);
  const { firstPage, rows, isComplete, problem, isFetching, loadMore, reload } = usePagedQuery<
    DeviceListPage,
    ListedDevice
  >(path, ({ devices }) => devices);
  const values = useDeviceValues(filterOf(query), rows.length);
  useLiveDevices(path, reload, (firstPage?.count ?? MAX_LIVE_STATES + 1) <= MAX_LIVE_STATES ? values.setStates : null);
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
  const isFiltered = search !== '' || ['home', 'room', 'online', 'tag'].some((name) => query.has(name));
  const view = useListView({
    ...{ list: 'devices', columns: useDeviceColumns(values.byId), rows: shown, loaded: rows.length },
    ...{ isComplete, isFetching: isFetching || values.isLoading, hasFailed: problem !== null },
    ...{ loadMore, query, changeQuery: setQuery },
  });
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
          <Filters query={query} change={setQuery}>
            <ListControls of={view} />
          </Filters>
          <TagFilters query={query} change={setQuery} />
          {problem !== null && rows.length === 0 ? (
            <LoadError problem={problem} retry={reload} />
          ) : (
            <DeviceTable
              // The selection and the dialog of a change stay when the filters hide all devices.
              empty={
                firstPage === null ? (
                  <Loading what="Loading devices" />
                ) : (
                  <NoDevices isFiltered={isFiltered} isComplete={isComplete} loadMore={loadMore} add={add} />
                )
              }
              label="Devices"
              columns={view.shown}
              rows={view.rows}
              sort={tableSorting(view)}
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

interface Presence {
  type: 'presence_update';
  device_id: string;
  online: boolean;
  timestamp: number;
}

interface StateUpdate {
  type: 'state_update';
  device_id: string;
  state: JsonObject;
}

/** Applies updates of the stream to the list, batched over 200 ms. States are not followed without `setStates`. */
function useLiveDevices(path: string, reload: () => void, setStates: LoadedValues['setStates'] | null): void {
  const queries = useQueryClient();
  const pending = useRef({ presences: new Map<string, Presence>(), states: new Map<string, JsonObject>() });
  const apply = (): void => {
    const { presences, states } = pending.current;
    pending.current = { presences: new Map(), states: new Map() };
    if (states.size > 0) setStates?.(states);
    if (presences.size === 0) return;
    updatePages<DeviceListPage>(queries, path, (page) => {
      if (!page.devices.some(({ id }) => presences.has(id))) return page;
      return { ...page, devices: page.devices.map((device) => withPresence(device, presences.get(device.id))) };
    });
  };
  const latestApply = useRef(apply);
  latestApply.current = apply;
  useStream({
    path: '/ws/state',
    query: { events: setStates === null ? 'presence' : 'presence,state' },
    onMessage(message) {
      const update = message as Presence | StateUpdate;
      const { presences, states } = pending.current;
      const isFirst = presences.size + states.size === 0;
      if (update.type === 'presence_update') presences.set(update.device_id, update);
      else if (update.type === 'state_update') states.set(update.device_id, update.state);
      else return;
      if (isFirst) setTimeout(() => latestApply.current(), 200);
    },
    onOpen() {
      reload();
      void invalidatePaths(queries, ['/v1/homes', VALUES_KEY]);
    },
  });
}

const withPresence = (device: ListedDevice, update: Presence | undefined): ListedDevice =>
  update === undefined
    ? device
    : { ...device, online: update.online, last_seen: lastSeenAfter(device, update.timestamp) };

const presences = [
  [null, 'All'],
  ['true', 'Online'],
  ['false', 'Offline'],
] as const;

interface FiltersProps {
  query: URLSearchParams;
  change: ChangeQuery;
  children: ReactNode;
}

function Filters({ query, change, children }: FiltersProps) {
  const findId = useId();
  const set = (name: string, value: string | null): void => setFilters(change, { [name]: value });
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
      {children}
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
