import { useId } from 'react';
import { Link, useSearchParams } from 'wouter';
import type { listTenants } from '../../../src/operations/platform/administration.ts';
import type { Answer } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Empty } from '../ui/feedback.tsx';

// Platform operators look into any tenant. Which one stands in the address, as the service takes it.

const NAME = 'tenant_id';
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The tenant that a platform operator looks into; null for the reader's own. */
export function useChosenTenant(): string | null {
  const { platform } = useSession();
  const [query] = useSearchParams();
  const named = query.get(NAME);
  return platform && named !== null && UUID.test(named) ? named : null;
}

/** A path of the service or of the console, in that tenant. */
export const withTenant = (path: string, tenant: string | null): string =>
  tenant === null ? path : `${path}${path.includes('?') ? '&' : '?'}${NAME}=${tenant}`;

/** Nothing for whoever is no platform operator. */
export function TenantChoice() {
  const { me, platform } = useSession();
  const tenant = useChosenTenant();
  const [, setQuery] = useSearchParams();
  const id = useId();
  const { data = [] } = useGet<Answer<typeof listTenants>>('/v1/admin/tenants?limit=200', { enabled: platform });
  if (!platform) return null;
  const choose = (chosen: string): void =>
    setQuery((before) => {
      const after = new URLSearchParams(before);
      if (chosen === '') after.delete(NAME);
      else after.set(NAME, chosen);
      return after;
    });
  return (
    <p className="tenant-choice">
      <label htmlFor={id}>Tenant</label>
      <select id={id} value={tenant ?? ''} onChange={({ target }) => choose(target.value)}>
        <option value="">{me.has_tenant ? 'Your own' : 'Choose one'}</option>
        {tenant !== null && !data.some((known) => known.id === tenant) && <option value={tenant}>{tenant}</option>}
        {data.map(({ id: known, name }) => (
          <option key={known} value={known}>
            {name}
          </option>
        ))}
      </select>
    </p>
  );
}

/** For an operator of the service who belongs to no tenant and has named none. */
export const NoTenant = () => (
  <Empty icon="tenant" title="You belong to no tenant.">
    Choose above whose actors to look at, or find one among <Link href="/platform/tenants">all tenants</Link>.
  </Empty>
);
