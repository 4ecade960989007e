import { useEffect, useMemo } from 'react';
import { Link } from 'wouter';
import type { ActorEntry } from '../api/answer-types.ts';
import { deviceHref } from '../devices/device-name.tsx';
import { knownParamUnits } from '../devices/known-units.ts';
import { useUserNames } from '../people/user-names.ts';
import { withTenant } from '../platform/tenant-choice.tsx';
import { Pill } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import { ListControls } from '../ui/list-controls.tsx';
import { type ListColumn, tableSorting, useListView } from '../ui/list-view.ts';
import { abbreviateId } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { formatBrief } from '../ui/values.tsx';
import { VirtualTable } from '../ui/virtual-table.tsx';
import { actorHref, idSuffix } from './actor-display.ts';
import type { LiveActorList } from './live-actor-list.ts';
import { StatePills } from './state-pills.tsx';

interface CommandRowsProps {
  rows: readonly ActorEntry[];
  /** Number of loaded rows, with those that the search does not find. */
  loaded: number;
  isComplete: boolean;
  list: LiveActorList;
  isSearch: boolean;
  /** Another tenant than the user's; null for the user's own. */
  tenant: string | null;
  query: URLSearchParams;
  changeQuery(change: (before: URLSearchParams) => URLSearchParams, options?: { replace?: boolean }): void;
}

/** The list of commands, with the device, the parameters and the user of each. */
export function CommandRows(props: CommandRowsProps) {
  const { rows, loaded, isComplete, list, isSearch, tenant, query, changeQuery } = props;
  const loadMore = (): void => list.setVisibleRange(loaded, loaded);
  const view = useListView({
    ...{ list: 'commands', columns: useCommandColumns(tenant), rows, loaded, isComplete, loadMore, query, changeQuery },
    // The list requests a page that it could not load again.
    ...{ isFetching: false, hasFailed: false },
  });
  // Other positions than those of the loaded list.
  const isReordered = isSearch || view.sorting !== null;
  useEffect(() => list.setReordered(isReordered), [list, isReordered]);
  return (
    <>
      <ListControls of={view} />
      <VirtualTable
        label="Commands"
        columns={view.shown}
        rows={view.rows}
        keyOf={({ id }) => id}
        isComplete={isComplete}
        loadMore={isSearch ? () => {} : loadMore}
        sort={tableSorting(view)}
        onVisibleRange={(first, last) => {
          if (!isReordered) list.setVisibleRange(first, last);
        }}
      />
    </>
  );
}

const deviceNameIn = ({ command }: ActorEntry): string | null =>
  command === undefined ? null : (command.device_name ?? `device ${abbreviateId(command.device_id)}`);

const paramsIn = ({ command, name }: ActorEntry): string =>
  command === undefined ? '' : formatBrief(command.params, knownParamUnits(name ?? ''));

function useCommandColumns(tenant: string | null): readonly ListColumn<ActorEntry>[] {
  const nameOf = useUserNames();
  return useMemo(() => {
    const userOf = ({ command }: ActorEntry): string | null =>
      command === undefined || command.requested_by === null ? null : nameOf(command.requested_by);
    return [
      {
        ...{ id: 'command', title: 'Command', width: 'minmax(9rem, 1.3fr)', value: ({ name }) => name },
        cell: ({ kind, id, name }) => (
          <span className="roll-name">
            <Icon name="command" />
            <Link href={withTenant(actorHref(kind, id), tenant)}>{name}</Link>
          </span>
        ),
      },
      {
        ...{ id: 'state', title: 'State', width: 'minmax(12rem, 1.7fr)', value: ({ state }) => state },
        cell: ({ state, quarantined }) => (
          <>
            {quarantined && <Pill tone="bad">quarantined</Pill>} <StatePills state={state} />
          </>
        ),
      },
      {
        ...{ id: 'device', title: 'Device', width: 'minmax(7rem, 1fr)', hideOnNarrow: true, value: deviceNameIn },
        cell: (entry) =>
          entry.command === undefined || tenant !== null || entry.command.device_name === null ? (
            (deviceNameIn(entry) ?? '—')
          ) : (
            <Link href={deviceHref(entry.command.device_id)}>{entry.command.device_name}</Link>
          ),
      },
      {
        ...{ id: 'params', title: 'Parameters', width: 'minmax(5rem, 0.7fr)', hideOnNarrow: true, value: paramsIn },
        cell: (entry) => <span title={paramsIn(entry)}>{paramsIn(entry) || '—'}</span>,
      },
      {
        ...{ id: 'user', title: 'User', width: 'minmax(5rem, 0.7fr)', hideOnNarrow: true, value: userOf },
        cell: (entry) => <span title={userOf(entry) ?? ''}>{userOf(entry) ?? '—'}</span>,
      },
      {
        ...{ id: 'since', title: 'Since', width: '7rem', hideOnNarrow: true, value: ({ since }) => since },
        cell: ({ since }) => <Time at={since} />,
      },
      {
        ...{ id: 'id', title: 'ID', width: '6rem', hideOnNarrow: true, value: ({ id }) => id },
        cell: ({ id }) => (
          <span className="mono quiet" title={id}>
            …{idSuffix(id)}
          </span>
        ),
      },
      {
        ...{ id: 'memory', title: 'Memory', width: '6.5rem', hideOnNarrow: true, isOptional: true },
        value: ({ live }) => (live ? 'active' : 'passivated'),
        cell: ({ live, mailbox }) => (mailbox > 0 ? `${mailbox} queued` : live ? 'active' : 'passivated'),
      },
    ];
  }, [nameOf, tenant]);
}
