import { useEffect } from 'react';
import { Link } from 'wouter';
import { type AuditListBody, actionTitle } from '../administration/audit-names.ts';
import { useGet } from '../api/queries.ts';
import { useUserNames } from '../people/user-names.ts';
import { Time } from '../ui/time.tsx';

const MAX_SHOWN = 10;

/** The last changes of a dashboard, from the audit log. Read again for each version. */
export function DashboardChanges({ id, version }: { id: string; version: number }) {
  const nameOf = useUserNames();
  const subject = `dashboard:${id}`;
  const { data, refetch } = useGet<AuditListBody>(`/v1/audit?subject=${subject}&limit=${MAX_SHOWN}`);
  // biome-ignore lint/correctness/useExhaustiveDependencies: for each version
  useEffect(() => void refetch(), [version, refetch]);
  const entries = data?.entries.filter(({ outcome }) => outcome === 'done') ?? [];
  if (entries.length === 0) return null;
  return (
    <section className="card" aria-labelledby="dashboard-changes">
      <header>
        <h2 id="dashboard-changes">Changes</h2>
        <Link href={`/audit?subject=${encodeURIComponent(subject)}`}>Show in the audit log</Link>
      </header>
      <ul className="tile-list">
        {entries.map(({ at, by, key, action, request_id }) => (
          <li key={`${at} ${request_id}`}>
            <span>
              {actionTitle(action)} by {nameOf(by)}
              {key !== null && `, key ${key}`}
            </span>
            <span className="quiet">
              <Time at={at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
