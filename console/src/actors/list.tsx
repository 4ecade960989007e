import { useVirtualizer } from '@tanstack/react-virtual';
import { type CSSProperties, memo, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { Link, useSearchParams } from 'wouter';
import type { ActorEntry } from '../api/answer-types.ts';
import { useStream } from '../live/use-stream.ts';
import { NoTenant, TenantChoice, useChosenTenant, withTenant } from '../platform/tenant-choice.tsx';
import { useSession } from '../session.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import { Time } from '../ui/time.tsx';
import { actorHref, iconOf, idSuffix } from './actor-display.ts';
import { CommandRows } from './command-rows.tsx';
import { Filters, filterFrom } from './filters.tsx';
import { type ActorListFilter, type ActorTransition, LiveActorList } from './live-actor-list.ts';
import { StatePills } from './state-pills.tsx';
import './list.css';

const ROW_PX = 46;
/** Rows replaced in one scroll step. After a longer jump the existing rows are reused for the new actors. */
const MAX_ROW_SHIFT = 4;

/** List of all actors: devices, commands, plans and the tenant. */
export function ActorsPage() {
  const { may } = useSession();
  const tenant = useChosenTenant();
  return (
    <div className="actors">
      <header className="page-head">
        <div>
          <h1>Actors</h1>
          <p className="quiet">
            Each device, command and plan is an actor with a current state and a set of events that it accepts.
          </p>
        </div>
        <TenantChoice />
      </header>
      {tenant !== null || may('admin') ? <ActorList key={tenant} tenant={tenant} /> : <NoTenant />}
    </div>
  );
}

function ActorList({ tenant }: { tenant: string | null }) {
  const [query, setQuery] = useSearchParams();
  const filter = filterFrom(query);
  const list = useLiveActorList(filter, tenant);
  const { entries, isComplete, loading, problem } = useSyncExternalStore(list.subscribe, list.view);
  const search = (query.get('find') ?? '').trim().toLowerCase();
  const shown = useMemo(
    () =>
      search === ''
        ? entries
        : entries.filter(({ name, id, command }) =>
            `${name ?? ''} ${command?.device_name ?? ''} ${id}`.toLowerCase().includes(search),
          ),
    [entries, search],
  );
  const count = `${entries.length.toLocaleString()}${isComplete ? '' : '+'}`;
  return (
    <>
      <Filters query={query} change={setQuery}>
        <p className="quiet" role="status">
          {entries.length === 0
            ? ''
            : search === ''
              ? `${count} ${count === '1' ? 'actor' : 'actors'}`
              : `${shown.length.toLocaleString()} of ${count} loaded`}
        </p>
      </Filters>
      {problem !== null && entries.length === 0 ? (
        <LoadError problem={problem} retry={() => list.invalidate()} />
      ) : entries.length === 0 && loading ? (
        <Loading what="Loading actors" />
      ) : shown.length === 0 ? (
        <NoActors
          isFiltered={search !== '' || Object.keys(filter).length > 0}
          unfilteredHref={withTenant('/actors', tenant)}
          isComplete={isComplete}
          loadMore={() => list.setVisibleRange(entries.length, entries.length)}
        />
      ) : filter.kind === 'command' ? (
        <CommandRows
          {...{ rows: shown, loaded: entries.length, isComplete, list, isSearch: search !== '', tenant, query }}
          changeQuery={setQuery}
        />
      ) : (
        <Rows rows={shown} isComplete={isComplete} list={list} isSearch={search !== ''} tenant={tenant} />
      )}
    </>
  );
}

interface NoActorsProps {
  isFiltered: boolean;
  unfilteredHref: string;
  isComplete: boolean;
  loadMore(): void;
}

const NoActors = ({ isFiltered, unfilteredHref, isComplete, loadMore }: NoActorsProps) =>
  isFiltered ? (
    <Empty icon="search" title="No matching actors.">
      {isComplete ? (
        <Link href={unfilteredHref}>Show all</Link>
      ) : (
        <button type="button" className="button" onClick={loadMore}>
          Search more
        </button>
      )}
    </Empty>
  ) : (
    <Empty icon="device" title="No actors yet.">
      Register a device, or simulate some: <code>twinkeep simulate --devices 5</code>
    </Empty>
  );

/** One list per filter, updated by the stream. Transitions within 100 ms are applied together. */
function useLiveActorList({ kind, state, quarantined }: ActorListFilter, tenant: string | null): LiveActorList {
  const list = useMemo(
    () =>
      new LiveActorList({
        ...(tenant && { tenant }),
        ...(kind && { kind }),
        ...(state && { state }),
        ...(quarantined && { quarantined }),
      }),
    [tenant, kind, state, quarantined],
  );
  useEffect(() => {
    list.open();
    return () => list.close();
  }, [list]);
  const pending = useRef<ActorTransition[]>([]);
  useStream({
    path: '/ws/actors',
    query: { ...(kind && { kind }), ...(tenant && { tenant_id: tenant }) },
    onMessage(message) {
      pending.current.push(message as ActorTransition);
      if (pending.current.length === 1) setTimeout(() => list.applyTransitions(pending.current.splice(0)), 100);
    },
    onOpen: () => list.invalidate(),
  });
  return list;
}

function Rows({
  rows,
  isComplete,
  list,
  isSearch,
  tenant,
}: {
  rows: readonly ActorEntry[];
  isComplete: boolean;
  list: LiveActorList;
  isSearch: boolean;
  tenant: string | null;
}) {
  const scroller = useRef<HTMLTableSectionElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 3,
  });
  const items = virtual.getVirtualItems();
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0];
  const keyOf = useRowKeys(first);
  useEffect(() => list.setReordered(isSearch), [list, isSearch]);
  // Search results have other positions than the list, so scrolling them loads nothing.
  useEffect(() => {
    if (!isSearch) list.setVisibleRange(first, last);
  }, [list, first, last, isSearch]);
  return (
    <table className="roll card" aria-label="Actors" aria-rowcount={isComplete ? rows.length + 1 : -1}>
      <thead>
        <tr className="roll-row roll-head" aria-rowindex={1}>
          {['Actor', 'State', 'Since', 'ID', 'Memory'].map((title) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable regions must be reachable by keyboard */}
      <tbody ref={scroller} tabIndex={0} style={{ '--whole': `${virtual.getTotalSize()}px` } as CSSProperties}>
        {items.map(({ index, start }) => {
          const entry = rows[index];
          return entry && <Row key={keyOf(index)} entry={entry} index={index} start={start} tenant={tenant} />;
        })}
      </tbody>
    </table>
  );
}

/**
 * React keys of the rows. Updating the texts of a row is much cheaper than creating one: after a long jump each row element
 * keeps its position and shows another actor. Rows never change their order, which would restyle them.
 */
function useRowKeys(first: number): (index: number) => number {
  const place = useRef({ first, base: 0 });
  const { current } = place;
  const shift = first - current.first;
  if (Math.abs(shift) > MAX_ROW_SHIFT) current.base += shift;
  current.first = first;
  return (index) => index - current.base;
}

interface RowProps {
  entry: ActorEntry;
  index: number;
  start: number;
  tenant: string | null;
}

const Row = memo(function Row({ entry, index, start, tenant }: RowProps) {
  const { kind, id, name, state, since, live, mailbox, quarantined } = entry;
  const hasChanged = useRecentStateChange(id, state);
  return (
    <tr
      className={hasChanged ? 'roll-row recently-changed' : 'roll-row'}
      aria-rowindex={index + 2}
      style={{ transform: `translateY(${start}px)` }}
    >
      <td className="roll-name">
        <Icon name={iconOf(kind)} />
        <Link href={withTenant(actorHref(kind, id), tenant)}>{name ?? `${kind} ${idSuffix(id)}`}</Link>
        <span className="quiet small">{kind}</span>
      </td>
      <td>
        {quarantined && <Pill tone="bad">quarantined</Pill>} <StatePills state={state} />
      </td>
      <td className="quiet">
        <Time at={since} />
      </td>
      <td className="mono quiet" title={id}>
        …{idSuffix(id)}
      </td>
      <td className="quiet">{mailbox > 0 ? `${mailbox} queued` : live ? 'active' : 'passivated'}</td>
    </tr>
  );
});

const HIGHLIGHT_MS = 2_000;

/** Whether the state of the shown actor changed within the last 2 s. */
function useRecentStateChange(id: string, state: string): boolean {
  const before = useRef({ id, state });
  const [changedId, setChangedId] = useState<string | null>(null);
  useEffect(() => {
    const { current } = before;
    before.current = { id, state };
    if (current.id !== id || current.state === state) return;
    setChangedId(id);
    const timer = setTimeout(() => setChangedId(null), HIGHLIGHT_MS);
    return () => clearTimeout(timer);
  }, [id, state]);
  return changedId === id;
}
