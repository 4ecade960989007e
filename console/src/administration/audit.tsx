import { useRef } from 'react';
import { Link, useSearchParams } from 'wouter';
import { usePagedQuery } from '../api/paged-query.ts';
import { commandHref } from '../commands/status.tsx';
import { dashboardHref } from '../dashboards/dashboard-types.ts';
import { deviceHref } from '../devices/device-name.tsx';
import { useUserNames } from '../people/user-names.ts';
import { planHref } from '../plans/plan-display.ts';
import { useSession } from '../session.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { humanize } from '../ui/text-format.ts';
import { dateAndTime, fullTime, zone } from '../ui/time.tsx';
import { type Column, VirtualTable } from '../ui/virtual-table.tsx';
import { AuditFilters } from './audit-filters.tsx';
import {
  type AuditListBody,
  actionTitle,
  type AuditListEntry as Entry,
  isOfPage,
  showsPages,
  targetTitle,
} from './audit-names.ts';
import './administration.css';

export const AuditPage = () => <AuditLog platform={false} />;
/** Audit entries that belong to no tenant, such as flag changes. */
export const PlatformAuditPage = () => <AuditLog platform />;

const filters = ['by', 'action', 'subject', 'from', 'to'] as const;

const exportFormats = [
  { format: 'csv', title: 'CSV' },
  { format: 'ndjson', title: 'NDJSON' },
] as const;

/** The file with the entries of the list. */
function exportHref(listed: URLSearchParams, format: (typeof exportFormats)[number]['format']): string {
  const query = new URLSearchParams(listed);
  query.delete('limit');
  query.set('format', format);
  return `/v1/audit/export?${query}`;
}

const isOfUser = (entry: Entry): boolean => !isOfPage(entry);

/** Audit log: actions of users and keys, including refused ones. */
function AuditLog({ platform }: { platform: boolean }) {
  const [query, setQuery] = useSearchParams();
  const params = new URLSearchParams({ limit: '100', ...(platform && { platform: 'true' }) });
  for (const name of filters) {
    const value = query.get(name)?.trim();
    if (value) params.set(name, value);
  }
  const listed = usePagedQuery<AuditListBody, Entry>(
    `/v1/audit?${params}`,
    ({ entries }) => entries,
    showsPages(query) ? undefined : isOfUser,
  );
  const { firstPage, rows: loaded, shown: rows, isComplete, problem, loadMore, reload } = listed;
  const nameOf = useUserNames();
  const titleOf = useTargetTitle(nameOf);
  const actions = useRef(new Set<string>()).current;
  const targets = useRef(new Map<string, string>()).current;
  for (const entry of loaded) {
    actions.add(entry.action);
    targets.set(entry.subject, titleOf(entry));
  }
  const columns = columnsOf(nameOf);
  const newest = rows[0];
  return (
    <div className="full-height-list">
      <header className="page-head">
        <div>
          <h1>{platform ? 'Service audit' : 'Audit'}</h1>
          <p className="quiet">
            {platform
              ? 'Actions of platform operators on the service.'
              : 'Actions of users and API keys, including refused ones.'}{' '}
            Newest first; times are in your time zone, {zone}.
          </p>
        </div>
        <div className="row-actions">
          {exportFormats.map(({ format, title }) => (
            <a
              key={format}
              className="button"
              href={exportHref(params, format)}
              title="All entries of the filters, with sign-ins and tickets of pages"
              download
            >
              Download {title}
            </a>
          ))}
          <button type="button" className="button" onClick={reload}>
            Refresh
          </button>
        </div>
      </header>
      <AuditFilters {...{ query, platform, actions, targets }} change={setQuery} />
      {problem !== null && rows.length === 0 ? (
        <LoadError problem={problem} retry={reload} />
      ) : firstPage === null ? (
        <Loading what="Loading audit log" />
      ) : rows.length === 0 && isComplete ? (
        <Empty icon="audit" title="No matching entries.">
          There are none, or they are older than the retention period.
        </Empty>
      ) : (
        <VirtualTable
          label={newest === undefined ? 'Audit' : `Audit, up to ${fullTime(newest.at)}`}
          columns={columns}
          rows={rows}
          keyOf={({ at, subject, action, request_id }) => `${at} ${subject} ${action} ${request_id}`}
          isComplete={isComplete}
          loadMore={loadMore}
        />
      )}
    </div>
  );
}

const subjectLinks: Readonly<Record<string, (id: string) => string>> = {
  device: deviceHref,
  command: commandHref,
  plan: planHref,
  home: (id) => `/homes/${id}`,
  group: (slug) => `/groups/${slug}`,
  dashboard: dashboardHref,
};

function useTargetTitle(nameOf: (id: string) => string): (entry: Entry) => string {
  const { me } = useSession();
  return (entry) => targetTitle(entry, nameOf, me.user.tenant_id);
}

/** The target of an action, `device:<id>`, as a link if it has a page. */
function Target({ of: entry, nameOf }: { of: Entry; nameOf(id: string): string }) {
  const [kind = '', id = ''] = entry.subject.split(/:(.*)/s);
  const hrefOf = subjectLinks[kind];
  const text = useTargetTitle(nameOf)(entry);
  return hrefOf === undefined ? (
    <span title={entry.subject}>{text}</span>
  ) : (
    <Link href={hrefOf(id)} title={entry.subject}>
      {text}
    </Link>
  );
}

/** On narrow screens an entry has two lines, with the time and the action above the other members. */
function columnsOf(nameOf: (id: string) => string): readonly Column<Entry>[] {
  return [
    { title: 'Time', width: 'var(--audit-time)', cell: ({ at }) => <EntryTime at={at} /> },
    {
      title: 'User',
      width: 'minmax(0, 0.8fr)',
      hideOnNarrow: true,
      cell: ({ by, key }) => (
        <span title={nameOf(by)}>
          {nameOf(by)}
          {key !== null && <span className="quiet small"> with key {key}</span>}
        </span>
      ),
    },
    {
      title: 'Action',
      width: 'minmax(0, 1.2fr)',
      cell: (entry) => (
        <>
          {actionTitle(entry.action)}
          {entry.count > 1 && <span className="quiet small"> {entry.count.toLocaleString()} times</span>}
          <span className="audit-second-line quiet small">
            {entry.outcome !== 'done' && (
              <span className="audit-refused">{humanize(entry.outcome).toLowerCase()} · </span>
            )}
            {nameOf(entry.by)} · <Target of={entry} nameOf={nameOf} />
          </span>
        </>
      ),
    },
    {
      title: 'Target',
      width: 'minmax(0, 1.8fr)',
      hideOnNarrow: true,
      cell: (entry) => <Target of={entry} nameOf={nameOf} />,
    },
    {
      title: 'From',
      width: 'minmax(0, 1fr)',
      hideOnNarrow: true,
      cell: ({ via, address, client }) => <Origin via={via} address={address} client={client} />,
    },
    {
      title: 'Outcome',
      width: 'minmax(10rem, 0.8fr)',
      hideOnNarrow: true,
      cell: ({ outcome }) =>
        outcome === 'done' ? (
          <span className="quiet">done</span>
        ) : (
          <Pill tone="bad">{humanize(outcome).toLowerCase()}</Pill>
        ),
    },
  ];
}

function EntryTime({ at }: { at: string }) {
  const [date, time] = dateAndTime(at);
  return (
    <time dateTime={at} title={`${fullTime(at)} ${zone}`} className="audit-time">
      <span>{date}</span> <span>{time}</span>
    </time>
  );
}

/** The interface, with the address and the client, which actions in a journal lack. */
function Origin({ via, address, client }: Pick<Entry, 'via' | 'address' | 'client'>) {
  const parts = [via, address, client].filter((part) => part !== null);
  return (
    <span title={parts.join(', ')}>
      {parts.slice(0, client === null ? undefined : -1).join(' ')}
      {client !== null && <span className="quiet small"> {client}</span>}
    </span>
  );
}
