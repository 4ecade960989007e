import { type QuotaKind, quotaKinds, quotaOf } from '../domain/quotas.ts';
import { type Outcome, type Refusal, refuse } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';
import type { TenantContext } from '../machines/tenant-types.ts';
import type { Services } from './operation.ts';

/** The refusal if the tenant would have more than its tier allows. `wanted` is called only if there is a limit. */
export async function quotaRefusal(
  { actors, settings }: Pick<Services, 'actors' | 'settings'>,
  tenantId: Uuid,
  kind: QuotaKind,
  wanted: () => number | Promise<number>,
): Promise<{ ok: false; refusal: Refusal } | null> {
  const ref = { kind: 'tenant', id: tenantId } as const;
  const tenant = actors.peek<TenantContext>(ref) ?? (await actors.read<TenantContext>(ref));
  const tier = tenant?.snapshot.context.fixed.tier ?? settings.defaultTier;
  const limit = quotaOf(settings.quotas, kind, tier);
  if (limit === 0 || (await wanted()) <= limit) return null;
  return refuse('QUOTA_REACHED', `A tenant of the tier ${tier} has at most ${limit} ${quotaKinds[kind]}.`);
}

/**
 * Adds one thing to those that `count` finds, unless the tenant has as many as its tier allows. One at a time, so that
 * concurrent requests do not exceed the quota.
 */
export const withinQuota = <T>(
  services: Pick<Services, 'actors' | 'locks' | 'settings'>,
  tenantId: Uuid,
  kind: QuotaKind,
  count: () => Promise<number>,
  add: () => Promise<Outcome<T>>,
): Promise<Outcome<T>> =>
  services.locks.exclusive(`quota:${tenantId}:${kind}`, async () => {
    const refused = await quotaRefusal(services, tenantId, kind, async () => (await count()) + 1);
    return refused ?? add();
  });
