import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import type { createGroup, listGroups } from '../../../src/operations/homes/groups.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { usePagedQuery } from '../api/paged-query.ts';
import { DeviceChecks } from '../devices/device-checks.tsx';
import { useSession } from '../session.tsx';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { FormButton } from '../ui/form-button.tsx';
import { Table } from '../ui/table.tsx';
import { GroupFields, groupInput } from './group-fields.tsx';

type GroupListPage = ResponseBody<typeof listGroups>;
type Group = GroupListPage['groups'][number];

/** Groups of devices, newest first. */
export function GroupsPage() {
  const { firstPage, rows, isComplete, problem, loadMore, reload } = usePagedQuery<GroupListPage, Group>(
    '/v1/groups?limit=100',
    ({ groups }) => groups,
  );
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Groups</h1>
          <p className="quiet">A group is a set of devices, in any homes, that commands and API keys can name.</p>
        </div>
        {rows.length > 0 && <AddGroup />}
      </header>
      {firstPage === null ? (
        problem === null ? (
          <Loading what="Loading groups" />
        ) : (
          <LoadError problem={problem} retry={reload} />
        )
      ) : rows.length === 0 ? (
        <Empty icon="group" title="No groups yet.">
          <p>For example, all lights that are turned off at night.</p>
          <AddGroup />
        </Empty>
      ) : (
        <section className="card" aria-label="Groups">
          <Table label="Groups, newest first" columns={['Group', 'Name in the API', 'Devices', 'Description']}>
            {rows.map(({ slug, name, device_ids, description }) => (
              <tr key={slug}>
                <th scope="row">
                  <Link href={groupHref(slug)}>{name}</Link>
                </th>
                <td>
                  <code>{slug}</code>
                </td>
                <td>{device_ids.length.toLocaleString()}</td>
                <td className="quiet">{description ?? '—'}</td>
              </tr>
            ))}
          </Table>
          {!isComplete && (
            <button type="button" className="button" onClick={loadMore}>
              Show more groups
            </button>
          )}
        </section>
      )}
    </>
  );
}

const groupHref = (slug: string): string => `/groups/${slug}`;

/** Nothing for users who are not admins. */
function AddGroup() {
  const { may } = useSession();
  const [, navigate] = useLocation();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  return (
    may('admin') && (
      <FormButton<ResponseBody<typeof createGroup>>
        label="Add group"
        isPrimary
        title="Add a group"
        submitLabel="Add group"
        stalePaths={['/v1/groups?']}
        changeOf={(given) => {
          const { name, description } = groupInput(given);
          const body = { name, ...(description !== '' && { description }), device_ids: [...chosen] };
          return { method: 'POST', path: '/v1/groups', body };
        }}
        onSuccess={({ slug }) => navigate(groupHref(slug))}
      >
        <GroupFields />
        <DeviceChecks without={[]} chosen={chosen} onChange={setChosen} />
      </FormButton>
    )
  );
}
