import { useEffect, useId, useMemo } from 'react';
import { Link, useSearchParams } from 'wouter';
import { type CommandStatus, commandStatuses } from '../../../src/domain/command.ts';
import type { listTenantCommands } from '../../../src/operations/commands/tenant-commands.ts';

import type { ResponseBody } from '../api/answer-types.ts';
import { usePagedQuery } from '../api/paged-query.ts';
import { deviceHref, deviceNameOf } from '../devices/device-name.tsx';
import { knownParamUnits } from '../devices/known-units.ts';
import { type ListedDevice, useAllDevices } from '../devices/use-all-devices.ts';
import { useUserNames } from '../people/user-names.ts';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { ListControls } from '../ui/list-controls.tsx';
import { type ListColumn, MAX_LOADED_ROWS, tableSorting, useListView } from '../ui/list-view.ts';
import { fromLocalInput, toLocalInput } from '../ui/local-time.ts';
import { abbreviateId, sentenceCase } from '../ui/text-format.ts';
import { Time, zone } from '../ui/time.tsx';
import { formatBrief } from '../ui/values.tsx';
import { VirtualTable } from '../ui/virtual-table.tsx';
import { titles } from './stages.ts';
import { commandHref, StatusPill } from './status.tsx';
import '../administration/administration.css';

type Page = ResponseBody<typeof listTenantCommands>;
type TenantCommand = Page['commands'][number];
type ChangeQuery = (change: (before: URLSearchParams) => URLSearchParams, options?: { replace?: boolean }) => void;

/** List of the commands of all devices of the tenant. The filters are in the address. */
export function CommandsPage() {
  const [query, setQuery] = useSearchParams();
  const params = new URLSearchParams({ limit: '200' });
  const status = commandStatuses.find((known) => known === query.get('status'));
  if (status !== undefined) params.set('status', status);
  for (const name of ['device_id', 'since'] as const) {
    const value = query.get(name);
    if (value) params.set(name, value);
  }
  const { firstPage, rows, isComplete, isFetching, problem, loadMore, reload } = usePagedQuery<Page, TenantCommand>(
    `/v1/commands?${params}`,
    ({ commands }) => commands,
  );
  const { rows: devices } = useAllDevices();
  const [until, person] = [query.get('until'), query.get('by')];
  // The service filters by neither, so the list is loaded before it is searched.
  const isSearched = until !== null || person !== null;
  const found = useMemo(
    () =>
      rows.filter(
        ({ timestamp, requested_by }) =>
          (until === null || Date.parse(timestamp) <= Date.parse(until)) &&
          (person === null || requested_by === person),
      ),
    [rows, until, person],
  );
  const isLoading = isSearched && !isComplete && problem === null && rows.length < MAX_LOADED_ROWS;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `loadMore` is a new function at each render
  useEffect(() => {
    if (isLoading && !isFetching && firstPage !== null) loadMore();
  }, [isLoading, isFetching, rows.length]);
  const view = useListView({
    ...{
      list: 'tenant-commands',
      columns: useColumns(devices),
      rows: found,
      loaded: rows.length,
      isComplete,
      isFetching,
    },
    ...{ hasFailed: problem !== null, loadMore, query, changeQuery: setQuery },
  });
  return (
    <div className="full-height-list">
      <header className="page-head">
        <div>
          <h1>Commands</h1>
          <p className="quiet">
            Commands of all devices, including refused ones. Newest first; times are in your time zone, {zone}.
          </p>
        </div>
        <button type="button" className="button" onClick={reload}>
          Refresh
        </button>
      </header>
      <CommandFilters
        query={query}
        change={setQuery}
        devices={devices}
        requesters={rows.map(({ requested_by }) => requested_by)}
      />
      {problem !== null && (rows.length === 0 || (isSearched && !isComplete)) ? (
        <LoadError problem={problem} retry={reload} />
      ) : firstPage === null || (found.length === 0 && !isComplete && rows.length < MAX_LOADED_ROWS) ? (
        <Loading what="Loading commands" />
      ) : found.length === 0 && (isComplete || isSearched) ? (
        <Empty icon="search" title="No matching commands.">
          {isComplete ? (
            <Link href="/commands">Show all</Link>
          ) : (
            `Only the newest ${MAX_LOADED_ROWS.toLocaleString()} commands were searched.`
          )}
        </Empty>
      ) : (
        <>
          <ListControls of={view} />
          <VirtualTable
            label="Commands"
            columns={view.shown}
            rows={view.rows}
            keyOf={({ id }) => id}
            isComplete={isComplete}
            loadMore={isSearched ? () => {} : loadMore}
            sort={tableSorting(view)}
          />
        </>
      )}
    </div>
  );
}

interface CommandFiltersProps {
  query: URLSearchParams;
  change: ChangeQuery;
  devices: readonly ListedDevice[];
  /** Ids of the users in the loaded rows. */
  requesters: readonly string[];
}

function CommandFilters({ query, change, devices, requesters }: CommandFiltersProps) {
  const [statusId, deviceId, personId, fromId, toId] = [useId(), useId(), useId(), useId(), useId()];
  const nameOf = useUserNames();
  const [device, person] = [query.get('device_id') ?? '', query.get('by') ?? ''];
  const people = [...new Set([...(person === '' ? [] : [person]), ...requesters])];
  const set = (name: string, value: string): void =>
    change(
      (before) => {
        const after = new URLSearchParams(before);
        if (value === '') after.delete(name);
        else after.set(name, value);
        return after;
      },
      { replace: true },
    );
  return (
    <search className="fields-row">
      <div>
        <label htmlFor={statusId}>Status</label>
        <select id={statusId} value={query.get('status') ?? ''} onChange={({ target }) => set('status', target.value)}>
          <option value="">Any status</option>
          {commandStatuses.map((status: CommandStatus) => (
            <option key={status} value={status}>
              {titles[status]}
            </option>
          ))}
        </select>
      </div>
      <div>
        <label htmlFor={deviceId}>Device</label>
        <select id={deviceId} value={device} onChange={({ target }) => set('device_id', target.value)}>
          <option value="">Any device</option>
          {device !== '' && !devices.some(({ id }) => id === device) && (
            <option value={device}>device {abbreviateId(device)}</option>
          )}
          {devices.map((one) => (
            <option key={one.id} value={one.id}>
              {deviceNameOf(one)}
            </option>
          ))}
        </select>
      </div>
      <div>
        <label htmlFor={personId}>User</label>
        <select id={personId} value={person} onChange={({ target }) => set('by', target.value)}>
          <option value="">Any user</option>
          {people.map((id) => (
            <option key={id} value={id}>
              {nameOf(id)}
            </option>
          ))}
        </select>
      </div>
      <div>
        <label htmlFor={fromId}>From ({zone})</label>
        <input
          id={fromId}
          type="datetime-local"
          value={toLocalInput(query.get('since'))}
          onChange={({ target }) => set('since', fromLocalInput(target.value))}
        />
      </div>
      <div>
        <label htmlFor={toId}>To ({zone})</label>
        <input
          id={toId}
          type="datetime-local"
          value={toLocalInput(query.get('until'))}
          onChange={({ target }) => set('until', fromLocalInput(target.value))}
        />
      </div>
    </search>
  );
}

function useColumns(devices: readonly ListedDevice[]): readonly ListColumn<TenantCommand>[] {
  const nameOf = useUserNames();
  return useMemo(() => {
    const names = new Map(devices.map((device) => [device.id, deviceNameOf(device)]));
    const deviceName = (id: string): string => names.get(id) ?? `device ${abbreviateId(id)}`;
    const paramsIn = ({ action, params }: TenantCommand): string => formatBrief(params, knownParamUnits(action));
    return [
      {
        ...{ id: 'action', title: 'Command', width: 'minmax(8rem, 1.2fr)', value: ({ action }) => action },
        cell: ({ id, action }) => <Link href={commandHref(id)}>{sentenceCase(action)}</Link>,
      },
      {
        ...{ id: 'status', title: 'Status', width: 'minmax(12.5rem, 1.2fr)', value: ({ status }) => titles[status] },
        cell: ({ status }) => <StatusPill status={status} />,
      },
      {
        ...{ id: 'device', title: 'Device', width: 'minmax(7rem, 1.2fr)', hideOnNarrow: true },
        value: ({ device_id }) => deviceName(device_id),
        cell: ({ device_id }) => <Link href={deviceHref(device_id)}>{deviceName(device_id)}</Link>,
      },
      {
        ...{ id: 'params', title: 'Parameters', width: 'minmax(6rem, 1fr)', hideOnNarrow: true, value: paramsIn },
        cell: (command) => <span title={paramsIn(command)}>{paramsIn(command) || '—'}</span>,
      },
      {
        ...{ id: 'user', title: 'User', width: 'minmax(7rem, 1.1fr)', hideOnNarrow: true },
        value: ({ requested_by }) => nameOf(requested_by),
        cell: ({ requested_by }) => <span title={nameOf(requested_by)}>{nameOf(requested_by)}</span>,
      },
      {
        ...{ id: 'requested', title: 'Requested', width: '8rem', hideOnNarrow: true },
        value: ({ timestamp }) => timestamp,
        cell: ({ timestamp }) => <Time at={timestamp} />,
      },
    ];
  }, [nameOf, devices]);
}
