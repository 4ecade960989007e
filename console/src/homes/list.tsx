import { Link, useLocation } from 'wouter';
import type { createHome, listHomes } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { usePagedQuery } from '../api/paged-query.ts';
import { useSession } from '../session.tsx';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { FormButton } from '../ui/form-button.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { browserTimeZone, HomeFields, homeInput } from './home-fields.tsx';

type HomeListPage = ResponseBody<typeof listHomes>;
type Home = HomeListPage['homes'][number];

/** Homes of the tenant, newest first. */
export function HomesPage() {
  const { firstPage, rows, isComplete, problem, loadMore, reload } = usePagedQuery<HomeListPage, Home>(
    '/v1/homes?limit=100',
    ({ homes }) => homes,
  );
  const { may } = useSession();
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Homes</h1>
          <p className="quiet">Each device is in a home, and may be in one of its rooms.</p>
        </div>
        {firstPage !== null && rows.length > 0 && <AddHome />}
      </header>
      {firstPage === null ? (
        problem === null ? (
          <Loading what="Loading homes" />
        ) : (
          <LoadError problem={problem} retry={reload} />
        )
      ) : rows.length === 0 ? (
        <Empty icon="place" title="No homes yet.">
          <p>{may('admin') ? 'Add one before its devices.' : 'An admin can add one.'}</p>
          <AddHome />
        </Empty>
      ) : (
        <section className="card" aria-label="Homes">
          <Table label="Homes, newest first" columns={['Home', 'Time zone', 'Created', 'Devices']}>
            {rows.map(({ id, home_name, timezone, created_at }) => (
              <tr key={id}>
                <th scope="row">
                  <Link href={homeHref(id)}>{home_name}</Link>
                </th>
                <td>{timezone ?? '—'}</td>
                <td className="quiet">
                  <Time at={created_at} />
                </td>
                <td>{may('user') && <Link href={`/devices?home=${id}`}>Show devices</Link>}</td>
              </tr>
            ))}
          </Table>
          {!isComplete && (
            <button type="button" className="button" onClick={loadMore}>
              Show more homes
            </button>
          )}
        </section>
      )}
    </>
  );
}

const homeHref = (id: string): string => `/homes/${id}`;

/** Nothing for users who are not admins. */
function AddHome() {
  const { may } = useSession();
  const [, navigate] = useLocation();
  return (
    may('admin') && (
      <FormButton<ResponseBody<typeof createHome>>
        label="Add home"
        isPrimary
        title="Add a home"
        submitLabel="Add home"
        stalePaths={['/v1/homes?', '/v1/overview']}
        changeOf={(given) => ({ method: 'POST', path: '/v1/homes', body: homeInput(given) })}
        onSuccess={({ id }) => navigate(homeHref(id))}
      >
        <HomeFields timezone={browserTimeZone()} />
      </FormButton>
    )
  );
}
