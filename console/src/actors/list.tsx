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
import { Filters, filterFrom } from './filters.tsx';
import { type ActorFilter, type ActorTransition, type LiveActorList, makeLiveActorList } from './live-actor-list.ts';
import { StatePills } from './state-pills.tsx';
import './list.css';

const ROW_PX = 46;
/** Rows that may come and go in one step of a scroll. After a longer one the rows that are there show what is there now. */
const MAX_ROW_SHIFT = 4;

/** Every device, command, plan and the tenant itself, as they are now. */
export function Actors() {
  const { may } = useSession();
  const tenant = useChosenTenant();
  return (
    <div className="actors">
      <header className="page-head">
        <div>
          <h1>Actors</h1>
          <p className="quiet">
            Every device, command and plan is an actor: it is in a state, and knows what it takes next.
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
  const roll = useLiveActorList(filter, tenant);
  const { entries, isComplete, loading, problem } = useSyncExternalStore(roll.subscribe, roll.view);
  const wanted = (query.get('find') ?? '').trim().toLowerCase();
  const shown = useMemo(
    () =>
      wanted === '' ? entries : entries.filter(({ name, id }) => `${name ?? ''} ${id}`.toLowerCase().includes(wanted)),
    [entries, wanted],
  );
  const count = `${entries.length.toLocaleString()}${isComplete ? '' : '+'}`;
  return (
    <>
      <Filters query={query} change={setQuery}>
        <p className="quiet" role="status">
          {entries.length === 0
            ? ''
            : wanted === ''
              ? `${count} ${count === '1' ? 'actor' : 'actors'}`
              : `${shown.length.toLocaleString()} of ${count} loaded`}
        </p>
      </Filters>
      {problem !== null && entries.length === 0 ? (
        <LoadError problem={problem} retry={roll.invalidate} />
      ) : entries.length === 0 && loading ? (
        <Loading what="Loading the actors" />
      ) : shown.length === 0 ? (
        <NoActors
          filtered={wanted !== '' || Object.keys(filter).length > 0}
          all={withTenant('/actors', tenant)}
          whole={isComplete}
          more={() => roll.setVisibleRange(entries.length, entries.length)}
        />
      ) : (
        <Rows rows={shown} whole={isComplete} roll={roll} searching={wanted !== ''} tenant={tenant} />
      )}
    </>
  );
}

const NoActors = ({ filtered, all, whole, more }: { filtered: boolean; all: string; whole: boolean; more(): void }) =>
  filtered ? (
    <Empty icon="search" title="No actor fits.">
      {whole ? (
        <Link href={all}>Show all</Link>
      ) : (
        <button type="button" className="button" onClick={more}>
          Look through more
        </button>
      )}
    </Empty>
  ) : (
    <Empty icon="device" title="Nothing here yet.">
      Register a device, or start some: <code>twinkeep simulate --devices 5</code>
    </Empty>
  );

/** One for each filter, told of what happens. Many transitions in one moment are one change of the list. */
function useLiveActorList({ kind, state, held }: ActorFilter, tenant: string | null): LiveActorList {
  const roll = useMemo(
    () =>
      makeLiveActorList({
        ...(tenant && { tenant }),
        ...(kind && { kind }),
        ...(state && { state }),
        ...(held && { held }),
      }),
    [tenant, kind, state, held],
  );
  useEffect(() => {
    roll.open();
    return roll.close;
  }, [roll]);
  const told = useRef<ActorTransition[]>([]);
  useStream({
    path: '/ws/actors',
    query: { ...(kind && { kind }), ...(tenant && { tenant_id: tenant }) },
    onMessage(message) {
      told.current.push(message as ActorTransition);
      if (told.current.length === 1) setTimeout(() => roll.applyTransitions(told.current.splice(0)), 100);
    },
    onOpen: () => roll.invalidate(),
  });
  return roll;
}

function Rows({
  rows,
  whole,
  roll,
  searching,
  tenant,
}: {
  rows: readonly ActorEntry[];
  whole: boolean;
  roll: LiveActorList;
  searching: boolean;
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
  // Rows that are searched stand elsewhere in the list: nothing is loaded for where they stand.
  useEffect(() => {
    if (!searching) roll.setVisibleRange(first, last);
  }, [roll, first, last, searching]);
  return (
    <table className="roll card" aria-label="Actors" aria-rowcount={whole ? rows.length + 1 : -1}>
      <thead>
        <tr className="roll-row roll-head" aria-rowindex={1}>
          {['Actor', 'State', 'Since', 'Id', 'Memory'].map((title) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard */}
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
 * Changing the texts of a row is much cheaper than making another: after a jump each row goes on in its place, with another
 * actor. None ever moves among the others, which would style it anew.
 */
function useRowKeys(first: number): (index: number) => number {
  const place = useRef({ first, base: 0 });
  const { current } = place;
  const gone = first - current.first;
  if (Math.abs(gone) > MAX_ROW_SHIFT) current.base += gone;
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
  const isNews = useRecentStateChange(id, state);
  return (
    <tr
      className={isNews ? 'roll-row news' : 'roll-row'}
      aria-rowindex={index + 2}
      style={{ transform: `translateY(${start}px)` }}
    >
      <td className="roll-name">
        <Icon name={iconOf(kind)} />
        <Link href={withTenant(actorHref(kind, id), tenant)}>{name ?? `${kind} ${idSuffix(id)}`}</Link>
        <span className="quiet small">{kind}</span>
      </td>
      <td>
        {quarantined && <Pill tone="bad">held back</Pill>} <StatePills state={state} />
      </td>
      <td className="quiet">
        <Time at={since} />
      </td>
      <td className="mono quiet" title={id}>
        …{idSuffix(id)}
      </td>
      <td className="quiet">{mailbox > 0 ? `${mailbox} waiting` : live ? 'live' : 'passivated'}</td>
    </tr>
  );
});

const HIGHLIGHT_MS = 2_000;

/** Whether the state of this actor changed while somebody looked on. */
function useRecentStateChange(id: string, state: string): boolean {
  const before = useRef({ id, state });
  const [news, setNews] = useState<string | null>(null);
  useEffect(() => {
    const { current } = before;
    before.current = { id, state };
    if (current.id !== id || current.state === state) return;
    setNews(id);
    const timer = setTimeout(() => setNews(null), HIGHLIGHT_MS);
    return () => clearTimeout(timer);
  }, [id, state]);
  return news === id;
}
