import { Link, useLocation } from 'wouter';
import type { listHomes } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { usePagedQuery } from '../api/paged-query.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { FormButton } from '../ui/form-button.tsx';
import { textIn } from '../ui/form-dialog.tsx';
import { NameField } from '../ui/name-field.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { Author } from './author.tsx';
import {
  DASHBOARDS,
  type DashboardBody,
  type DashboardEntry,
  type DashboardListBody,
  dashboardHref,
  homeDashboardHref,
} from './dashboard-types.ts';
import './board.css';

/** Stored dashboards of the tenant, and those that are derived from its homes. */
export function DashboardsPage() {
  const { firstPage, rows, isComplete, problem, loadMore, reload } = usePagedQuery<DashboardListBody, DashboardEntry>(
    `${DASHBOARDS}?limit=100`,
    ({ dashboards }) => dashboards,
  );
  const { may } = useSession();
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Dashboards</h1>
          <p className="quiet">Tiles with values, charts and buttons, for everybody in the tenant.</p>
        </div>
        {may('admin') && <NewDashboard />}
      </header>
      {firstPage === null ? (
        problem === null ? (
          <Loading what="Loading dashboards" />
        ) : (
          <LoadError problem={problem} retry={reload} />
        )
      ) : rows.length === 0 ? (
        <Empty icon="dashboard" title="No dashboard was stored yet.">
          {may('admin') ? 'Create one, or edit a copy of the dashboard of a home.' : 'An admin can create one.'}
        </Empty>
      ) : (
        <section className="card" aria-label="Dashboards">
          <Table label="Dashboards, newest first" columns={['Dashboard', 'Tiles', 'Changed by', 'Changed']}>
            {rows.map(({ id, name, tile_count, changed_by, changed_at }) => (
              <tr key={id}>
                <th scope="row">
                  <Link href={dashboardHref(id)}>{name}</Link>
                </th>
                <td>{tile_count}</td>
                <td>
                  <Author of={changed_by} />
                </td>
                <td>
                  <Time at={changed_at} />
                </td>
              </tr>
            ))}
          </Table>
          {!isComplete && (
            <button type="button" className="button" onClick={() => loadMore()}>
              Show more
            </button>
          )}
        </section>
      )}
      <DerivedDashboards />
    </>
  );
}

function NewDashboard() {
  const [, navigate] = useLocation();
  return (
    <FormButton<DashboardBody>
      label="New dashboard"
      isPrimary
      title="New dashboard"
      submitLabel="Create dashboard"
      stalePaths={[`${DASHBOARDS}?`]}
      changeOf={(given) => ({ method: 'POST', path: DASHBOARDS, body: { name: textIn(given, 'name') } })}
      onSuccess={({ dashboard }) => navigate(dashboardHref(dashboard.id))}
    >
      <NameField />
    </FormButton>
  );
}

const MAX_HOMES = 50;

function DerivedDashboards() {
  const { data } = useGet<ResponseBody<typeof listHomes>>(`/v1/homes?limit=${MAX_HOMES}`);
  if (data === undefined || data.homes.length === 0) return null;
  return (
    <section className="card" aria-labelledby="derived">
      <header>
        <h2 id="derived">Homes</h2>
        <p className="quiet small">Chosen from the devices of each home</p>
      </header>
      <ul className="tile-list">
        {data.homes.map(({ id, home_name }) => (
          <li key={id}>
            <Link href={homeDashboardHref(id)}>{home_name}</Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

const MAX_LINKS = 6;

/** Links to dashboards, on the page Home: stored ones, and those of the newest homes. */
export function DashboardLinks() {
  const stored = useGet<DashboardListBody>(`${DASHBOARDS}?limit=${MAX_LINKS}`);
  const homes = useGet<ResponseBody<typeof listHomes>>(`/v1/homes?limit=${MAX_LINKS}`);
  const links = [
    ...(stored.data?.dashboards ?? []).map(({ id, name }) => ({ href: dashboardHref(id), name })),
    ...(homes.data?.homes ?? []).map(({ id, home_name }) => ({ href: homeDashboardHref(id), name: home_name })),
  ];
  if (links.length === 0) return null;
  return (
    <section aria-labelledby="dashboard-links">
      <header className="home-part tiles-head">
        <h2 id="dashboard-links">Dashboards</h2>
        <Link href="/dashboards">Show all dashboards</Link>
      </header>
      <p className="board-links">
        {links.slice(0, MAX_LINKS).map(({ href, name }) => (
          <Link key={href} className="button" href={href}>
            {name}
          </Link>
        ))}
      </p>
    </section>
  );
}
