import { useInfiniteQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { Link } from 'wouter';
import type { listTenants } from '../../../src/operations/platform/administration.ts';
import type { Answer } from '../api/answer-types.ts';
import { requestList } from '../api/client.ts';
import type { Problem } from '../api/problem.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { withTenant } from './tenant-choice.tsx';
import '../govern/govern.css';

type Tenant = Answer<typeof listTenants>[number];

const TENANTS = '/v1/admin/tenants';

/** All tenants of the service, for its operators. */
export function Tenants() {
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
          <p className="quiet">Suspending parks a tenant: nobody signs in, nothing is dispatched, nothing is lost.</p>
        </div>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading the tenants" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : tenants.length === 0 ? (
        <Empty icon="tenant" title="No tenants yet.">
          Whoever signs in without one can make theirs.
        </Empty>
      ) : (
        <section className="card" aria-label="All tenants">
          <Table label="Tenants" columns={['Tenant', 'Status', 'Tier', 'Since', 'Change']}>
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
              Show older ones
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
  const reasonId = useId();
  const body = reason.trim() === '' ? {} : { reason: reason.trim() };
  return (
    <div className="row-actions">
      <Tier of={tenant} />
      <ConfirmButton
        label={active ? 'Suspend' : 'Resume'}
        about={tenant.name}
        title={`${active ? 'Suspend' : 'Resume'} ${tenant.name}?`}
        confirmLabel={active ? 'Suspend it' : 'Resume it'}
        tone={active ? 'danger' : 'primary'}
        change={{ method: 'POST', path: `${TENANTS}/${tenant.id}/${active ? 'suspend' : 'resume'}`, body }}
        stalePaths={[TENANTS]}
        onSuccess={() => setReason('')}
      >
        <p>
          {active
            ? 'All its sessions end now. Its commands wait, expire or time out; its plans stop.'
            : 'Its people and devices can sign in again at once.'}
        </p>
        <label htmlFor={reasonId}>Why (kept in its journal; may be left empty)</label>
        <input
          id={reasonId}
          maxLength={500}
          autoComplete="off"
          value={reason}
          onChange={({ target }) => setReason(target.value)}
        />
      </ConfirmButton>
    </div>
  );
}

function Tier({ of: { id, name, tier } }: { of: Tenant }) {
  const [wanted, setWanted] = useState(tier);
  const tierId = useId();
  return (
    <ConfirmButton
      label="Tier"
      about={`of ${name}`}
      title={`The tier of ${name}`}
      confirmLabel="Set it"
      tone="primary"
      change={{ method: 'POST', path: `${TENANTS}/${id}/tier`, body: { tier: wanted.trim() } }}
      stalePaths={[TENANTS]}
    >
      <p>It decides how many requests a minute the tenant has.</p>
      <label htmlFor={tierId}>Tier</label>
      <input
        id={tierId}
        maxLength={64}
        autoComplete="off"
        value={wanted}
        onChange={({ target }) => setWanted(target.value)}
      />
    </ConfirmButton>
  );
}
