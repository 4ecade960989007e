import { useInfiniteQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { Link } from 'wouter';
import type { listTenants } from '../../../src/operations/platform/administration.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { requestList } from '../api/client.ts';
import type { Problem } from '../api/problem.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { withTenant } from './tenant-choice.tsx';
import '../administration/administration.css';

type Tenant = ResponseBody<typeof listTenants>[number];

const TENANTS = '/v1/admin/tenants';

/** List of all tenants, for platform operators. */
export function TenantsPage() {
  const { data, error, refetch, hasNextPage, fetchNextPage } = useInfiniteQuery<
    { rows: Tenant[]; next: string | null },
    Problem,
    { pages: { rows: Tenant[] }[] },
    string[],
    string
  >({
    queryKey: [TENANTS],
    queryFn: ({ pageParam }) => requestList<Tenant>(pageParam),
    initialPageParam: `${TENANTS}?limit=100`,
    getNextPageParam: ({ next }) => next,
  });
  const tenants = data?.pages.flatMap(({ rows }) => rows) ?? [];
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Tenants</h1>
          <p className="quiet">
            A suspended tenant cannot sign in or send commands, and its devices cannot connect. Stored data is kept.
          </p>
        </div>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading tenants" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : tenants.length === 0 ? (
        <Empty icon="tenant" title="No tenants yet.">
          Users without a tenant can create one after signing in.
        </Empty>
      ) : (
        <section className="card" aria-label="All tenants">
          <Table label="Tenants" columns={['Tenant', 'Status', 'Tier', 'Created', 'Actions']}>
            {tenants.map((tenant) => (
              <tr key={tenant.id}>
                <th scope="row">
                  <Link href={withTenant('/actors', tenant.id)}>{tenant.name}</Link>{' '}
                  <span className="quiet small">{tenant.slug}</span>
                </th>
                <td>
                  <Pill tone={tenant.status === 'active' ? 'good' : 'warn'}>{tenant.status}</Pill>
                </td>
                <td>{tenant.tier}</td>
                <td className="quiet">
                  <Time at={tenant.created_at._seconds * 1_000} />
                </td>
                <td>
                  <Changes of={tenant} />
                </td>
              </tr>
            ))}
          </Table>
          {hasNextPage && (
            <button type="button" className="button" onClick={() => void fetchNextPage()}>
              Show older tenants
            </button>
          )}
        </section>
      )}
    </>
  );
}

function Changes({ of: tenant }: { of: Tenant }) {
  const active = tenant.status === 'active';
  const [reason, setReason] = useState('');
  const [notice, setNotice] = useState('');
  const [reasonId, noticeId] = [useId(), useId()];
  const body = {
    ...(reason.trim() !== '' && { reason: reason.trim() }),
    ...(active && notice.trim() !== '' && { notice: notice.trim() }),
  };
  return (
    <div className="row-actions">
      <Tier of={tenant} />
      <ConfirmButton
        label={active ? 'Suspend' : 'Resume'}
        about={tenant.name}
        title={`${active ? 'Suspend' : 'Resume'} ${tenant.name}?`}
        confirmLabel={active ? 'Suspend tenant' : 'Resume tenant'}
        tone={active ? 'danger' : 'primary'}
        change={{ method: 'POST', path: `${TENANTS}/${tenant.id}/${active ? 'suspend' : 'resume'}`, body }}
        stalePaths={[TENANTS]}
        onSuccess={() => {
          setReason('');
          setNotice('');
        }}
      >
        <p>
          {active
            ? 'All sessions end immediately. Commands wait, expire or time out; plans stop.'
            : 'Members and devices can sign in again immediately.'}
        </p>
        <label htmlFor={reasonId}>Reason (optional, stored in the journal)</label>
        <input
          id={reasonId}
          maxLength={500}
          autoComplete="off"
          value={reason}
          onChange={({ target }) => setReason(target.value)}
        />
        {active && (
          <>
            <label htmlFor={noticeId}>Notice to the members (optional)</label>
            <input
              id={noticeId}
              maxLength={500}
              autoComplete="off"
              value={notice}
              onChange={({ target }) => setNotice(target.value)}
            />
          </>
        )}
      </ConfirmButton>
    </div>
  );
}

function Tier({ of: { id, name, tier } }: { of: Tenant }) {
  const [newTier, setNewTier] = useState(tier);
  const tierId = useId();
  return (
    <ConfirmButton
      label="Tier"
      about={`of ${name}`}
      title={`Tier of ${name}`}
      confirmLabel="Set tier"
      tone="primary"
      change={{ method: 'POST', path: `${TENANTS}/${id}/tier`, body: { tier: newTier.trim() } }}
      stalePaths={[TENANTS]}
    >
      <p>The tier sets the tenant's limit of requests per minute.</p>
      <label htmlFor={tierId}>Tier</label>
      <input
        id={tierId}
        maxLength={64}
        autoComplete="off"
        value={newTier}
        onChange={({ target }) => setNewTier(target.value)}
      />
    </ConfirmButton>
  );
}
