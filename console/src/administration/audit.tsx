import { useId } from 'react';
import { Link, useSearchParams } from 'wouter';
import type { listMembers } from '../../../src/operations/identity/members.ts';
import type { listAudit } from '../../../src/operations/inspection/audit.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { usePagedQuery } from '../api/paged-query.ts';
import { useGet } from '../api/queries.ts';
import { commandHref } from '../commands/status.tsx';
import { deviceHref } from '../devices/device-name.tsx';
import { useUserNames } from '../people/user-names.ts';
import { planHref } from '../plans/plan-display.ts';
import { useSession } from '../session.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { abbreviateId, capital, humanize, sentenceCase } from '../ui/text-format.ts';
import { fullTime, zone } from '../ui/time.tsx';
import { type Column, VirtualTable } from '../ui/virtual-table.tsx';
import './administration.css';

type AuditListBody = ResponseBody<typeof listAudit>;
type Entry = AuditListBody['entries'][number];

export const AuditPage = () => <AuditLog platform={false} />;
/** Audit entries that belong to no tenant, such as flag changes. */
export const PlatformAuditPage = () => <AuditLog platform />;

const filters = ['by', 'action', 'subject'] as const;

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

/** Audit log: actions of users and keys, including refused ones. */
function AuditLog({ platform }: { platform: boolean }) {
  const [query, setQuery] = useSearchParams();
  const params = new URLSearchParams({ limit: '100', ...(platform && { platform: 'true' }) });
  for (const name of filters) {
    const value = query.get(name)?.trim();
    if (value) params.set(name, value);
  }
  const path = `/v1/audit?${params}`;
  const { firstPage, rows, isComplete, problem, loadMore, reload } = usePagedQuery<AuditListBody, Entry>(
    path,
    ({ entries }) => entries,
  );
  const nameOf = useUserNames();
  const columns: readonly Column<Entry>[] = [
    {
      title: 'Time',
      width: 'minmax(6rem, 1.7fr)',
      cell: ({ at }) => <time dateTime={at}>{fullTime(at)}</time>,
    },
    {
      title: 'User',
      width: 'minmax(7rem, 1.1fr)',
      cell: ({ by, key }) => (
        <>
          {nameOf(by)}
          {key !== null && <span className="quiet small"> with key {key}</span>}
        </>
      ),
    },
    {
      title: 'Action',
      width: 'minmax(8rem, 1.4fr)',
      cell: ({ action, count }) => (
        <>
          {sentenceCase(action)}
          {count > 1 && <span className="quiet small"> {count.toLocaleString()} times</span>}
        </>
      ),
    },
    {
      title: 'Target',
      width: 'minmax(9rem, 1.3fr)',
      hideOnNarrow: true,
      cell: ({ subject }) => <Subject of={subject} />,
    },
    {
      title: 'From',
      width: 'minmax(9rem, 1.5fr)',
      hideOnNarrow: true,
      cell: ({ via, address, client }) => <Origin via={via} address={address} client={client} />,
    },
    {
      title: 'Outcome',
      width: 'minmax(6rem, 1.3fr)',
      cell: ({ outcome }) =>
        outcome === 'done' ? (
          <span className="quiet">done</span>
        ) : (
          <Pill tone="bad">{humanize(outcome).toLowerCase()}</Pill>
        ),
    },
  ];
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
            Newest first; times in {zone}.
          </p>
        </div>
        <div className="row-actions">
          {exportFormats.map(({ format, title }) => (
            <a key={format} className="button" href={exportHref(params, format)} download>
              Download {title}
            </a>
          ))}
          <button type="button" className="button" onClick={reload}>
            Refresh
          </button>
        </div>
      </header>
      <Filters query={query} change={setQuery} platform={platform} />
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
};

/** The target of an action, `device:<id>`, as a link if it has a page. */
function Subject({ of }: { of: string }) {
  const [kind = '', id = ''] = of.split(/:(.*)/s);
  const hrefOf = subjectLinks[kind];
  const text = `${capital(kind)} ${id.length > 12 ? abbreviateId(id) : id}`;
  return hrefOf === undefined ? <span title={of}>{text}</span> : <Link href={hrefOf(id)}>{text}</Link>;
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

type ChangeQuery = (change: (before: URLSearchParams) => URLSearchParams, options?: { replace?: boolean }) => void;

function Filters({ query, change, platform }: { query: URLSearchParams; change: ChangeQuery; platform: boolean }) {
  const { may } = useSession();
  const [userId, actionId, targetId] = [useId(), useId(), useId()];
  const { data } = useGet<ResponseBody<typeof listMembers>>('/v1/tenant/members?limit=200', {
    enabled: !platform && may('admin'),
  });
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
  const people = data?.members.filter(({ status }) => status === 'active') ?? [];
  return (
    <search className="fields-row">
      {people.length > 0 && (
        <div>
          <label htmlFor={userId}>User</label>
          <select id={userId} value={query.get('by') ?? ''} onChange={({ target }) => set('by', target.value)}>
            <option value="">Any user</option>
            {people.map(({ id, email }) => (
              <option key={id} value={id}>
                {email ?? abbreviateId(id)}
              </option>
            ))}
          </select>
        </div>
      )}
      <div>
        <label htmlFor={actionId}>Action</label>
        <input
          id={actionId}
          placeholder="e.g. commandDevice"
          value={query.get('action') ?? ''}
          onChange={({ target }) => set('action', target.value.replaceAll(/\s/g, ''))}
        />
      </div>
      <div>
        <label htmlFor={targetId}>Target</label>
        <input
          id={targetId}
          placeholder="e.g. device:<id>"
          value={query.get('subject') ?? ''}
          onChange={({ target }) => set('subject', target.value.replaceAll(/\s/g, ''))}
        />
      </div>
    </search>
  );
}
