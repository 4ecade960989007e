import { useId, useMemo, useRef } from 'react';
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
import { type ListColumn, tableSorting, useListView } from '../ui/list-view.ts';
import { type ChangeQuery, setFilters } from '../ui/query-filters.ts';
import { abbreviateId, sentenceCase } from '../ui/text-format.ts';
import { Time, zone } from '../ui/time.tsx';
import { TimeRange } from '../ui/time-range.tsx';
import { formatBrief } from '../ui/values.tsx';
import { VirtualTable } from '../ui/virtual-table.tsx';
import { titles } from './stages.ts';
import { commandHref, StatusPill } from './status.tsx';
import '../administration/administration.css';

type Page = ResponseBody<typeof listTenantCommands>;
type TenantCommand = Page['commands'][number];

/** The filters of the address, as the API names them. */
const filters = [
  ['device_id', 'device_id'],
  ['by', 'requested_by'],
  ['from', 'from'],
  ['to', 'to'],
] as const;

/** List of the commands of all devices of the tenant. The filters are in the address. */
export function CommandsPage() {
  const [query, setQuery] = useSearchParams();
  const params = new URLSearchParams({ limit: '200' });
  const status = commandStatuses.find((known) => known === query.get('status'));
  if (status !== undefined) params.set('status', status);
  for (const [name, filter] of filters) {
    const value = query.get(name);
    if (value) params.set(filter, value);
  }
  const { firstPage, rows, isComplete, isFetching, problem, loadMore, reload } = usePagedQuery<Page, TenantCommand>(
    `/v1/commands?${params}`,
    ({ commands }) => commands,
  );
  const { rows: devices } = useAllDevices();
  const requesters = useRef(new Set<string>()).current;
  for (const { requested_by } of rows) requesters.add(requested_by);
  const view = useListView({
    ...{
      list: 'tenant-commands',
      columns: useColumns(devices),
      rows,
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
      <CommandFilters query={query} change={setQuery} devices={devices} requesters={requesters} />
      {problem !== null && rows.length === 0 ? (
        <LoadError problem={problem} retry={reload} />
      ) : firstPage === null || (rows.length === 0 && !isComplete) ? (
        <Loading what="Loading commands" />
      ) : rows.length === 0 ? (
        <Empty icon="search" title="No matching commands.">
          <Link href="/commands">Show all</Link>
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
            loadMore={loadMore}
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
  /** Ids of the users in the rows that were loaded. */
  requesters: ReadonlySet<string>;
}

function CommandFilters({ query, change, devices, requesters }: CommandFiltersProps) {
  const [statusId, deviceId, personId] = [useId(), useId(), useId()];
  const nameOf = useUserNames();
  const [device, person] = [query.get('device_id') ?? '', query.get('by') ?? ''];
  const people = [...new Set([...(person === '' ? [] : [person]), ...requesters])];
  const set = (name: string, value: string): void => setFilters(change, { [name]: value });
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
      <TimeRange query={query} change={change} />
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
        ...{ id: 'action', title: 'Command', width: 'minmax(min(8rem, 22vw), 1.2fr)', value: ({ action }) => action },
        cell: ({ id, action }) => <Link href={commandHref(id)}>{sentenceCase(action)}</Link>,
      },
      {
        ...{
          id: 'status',
          title: 'Status',
          width: 'minmax(min(12.5rem, 52vw), 1.2fr)',
          value: ({ status }) => titles[status],
        },
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
