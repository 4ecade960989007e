import { useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import type { getHome } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { LoadError, Loading } from '../ui/feedback.tsx';
import { Time } from '../ui/time.tsx';
import { Author } from './author.tsx';
import { Board } from './board.tsx';
import { DashboardChanges } from './changes.tsx';
import { CopyLink } from './copy-link.tsx';
import {
  DASHBOARDS,
  type DashboardBody,
  type DashboardRecord,
  dashboardDraftOf,
  dashboardHref,
  dashboardPath,
} from './dashboard-types.ts';
import { DashboardEditor } from './editor.tsx';
import { Wall } from './wall.tsx';
import './board.css';

/** Another person's change is seen so soon. */
const REFRESH_MS = 10_000;

/** Page of one dashboard: to look at, to change, and with `?wall` for a screen on a wall. */
export function DashboardPage({ params: { id = '' } }: { params: Readonly<Record<string, string>> }) {
  const { data, error, refetch, dataUpdatedAt } = useGet<DashboardBody>(dashboardPath(id), {
    refetchIntervalMs: REFRESH_MS,
  });
  const [query] = useSearchParams();
  const [isEditing, setEditing] = useState(false);
  if (data === undefined || error?.status === 404) {
    return error === null ? (
      <Loading what="Loading dashboard" />
    ) : (
      <LoadError isWholePage problem={error} retry={refetch} />
    );
  }
  const { dashboard } = data;
  const { name, tiles } = dashboardDraftOf(dashboard);
  if (query.has('wall'))
    return <Wall {...{ name, tiles }} href={dashboardHref(id)} readAt={dataUpdatedAt} hasFailed={error !== null} />;
  return isEditing ? (
    <DashboardEditor stored={dashboard} onDone={() => setEditing(false)} />
  ) : (
    <DashboardView dashboard={dashboard} onEdit={() => setEditing(true)} />
  );
}

function DashboardView({ dashboard, onEdit }: { dashboard: DashboardRecord; onEdit(): void }) {
  const { may } = useSession();
  const [, navigate] = useLocation();
  const { id, name, home_id: homeId } = dashboard;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{name}</h1>
          <p className="quiet">
            {homeId !== null && (
              <>
                <HomeLink id={homeId} /> ·{' '}
              </>
            )}
            {homeId === null ? 'Changed' : 'changed'} by <Author of={dashboard.changed_by} />{' '}
            <Time at={dashboard.changed_at} />
          </p>
        </div>
        <div className="board-links">
          <CopyLink />
          <Link className="button" href={`${dashboardHref(id)}?wall`}>
            Wall view
          </Link>
          {may('admin') && (
            <>
              <button type="button" className="button" onClick={onEdit}>
                Edit
              </button>
              <ConfirmButton
                label="Delete"
                title={`Delete ${name}?`}
                confirmLabel="Delete dashboard"
                change={{ method: 'DELETE', path: dashboardPath(id) }}
                stalePaths={[`${DASHBOARDS}?`]}
                onSuccess={() => navigate('/dashboards')}
              >
                <p>The link to it ends. Devices are kept.</p>
              </ConfirmButton>
            </>
          )}
        </div>
      </header>
      <Board tiles={dashboardDraftOf(dashboard).tiles} isLive={may('user')}>
        {may('admin') ? (
          <button type="button" className="button primary" onClick={onEdit}>
            Add tiles
          </button>
        ) : (
          'An admin can add some.'
        )}
      </Board>
      {may('admin') && <DashboardChanges id={id} version={dashboard.version} />}
    </>
  );
}

function HomeLink({ id }: { id: string }) {
  const { data, error } = useGet<ResponseBody<typeof getHome>>(`/v1/homes/${id}`);
  if (error?.status === 404) return <>a home that no longer exists</>;
  return <Link href={`/homes/${id}`}>{data?.home.home_name ?? 'Home'}</Link>;
}
