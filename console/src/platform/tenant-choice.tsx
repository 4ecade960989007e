import { useId } from 'react';
import { Link, useSearchParams } from 'wouter';
import { isUuid } from '../../../src/domain/uuid.ts';
import type { listTenants } from '../../../src/operations/platform/administration.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Empty } from '../ui/feedback.tsx';

// Platform operators can view any tenant. Its ID is in the URL, as the query parameter that the API accepts.

const NAME = 'tenant_id';

/** The tenant that a platform operator has selected; null for the user's own. */
export function useChosenTenant(): string | null {
  const { platform } = useSession();
  const [query] = useSearchParams();
  const named = query.get(NAME);
  return platform && named !== null && isUuid(named) ? named : null;
}

/** Adds the tenant to a path of the service or of the console. */
export const withTenant = (path: string, tenant: string | null): string =>
  tenant === null ? path : `${path}${path.includes('?') ? '&' : '?'}${NAME}=${tenant}`;

/** Tenant selector; hidden unless the user is a platform operator. */
export function TenantChoice() {
  const { me, platform } = useSession();
  const tenant = useChosenTenant();
  const [, setQuery] = useSearchParams();
  const id = useId();
  const { data = [] } = useGet<ResponseBody<typeof listTenants>>('/v1/admin/tenants?limit=200', { enabled: platform });
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
        <option value="">{me.has_tenant ? 'Your tenant' : 'Select a tenant'}</option>
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

/** For a platform operator without a tenant who has not selected one. */
export const NoTenant = () => (
  <Empty icon="tenant" title="You are not a member of a tenant.">
    Select a tenant above, or open the list of <Link href="/platform/tenants">all tenants</Link>.
  </Empty>
);
