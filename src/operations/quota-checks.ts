import { type QuotaKind, quotaKinds, quotaOf } from '../domain/quotas.ts';
import { type Outcome, type Refusal, refuse } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';
import type { TenantContext } from '../machines/tenant-types.ts';
import type { Services } from './operation.ts';

type Refused = { ok: false; refusal: Refusal };

/** The refusal if the tenant would have more than its tier allows. `wanted` is called only if there is a limit. */
export async function quotaRefusal(
  services: Pick<Services, 'actors' | 'settings'>,
  tenantId: Uuid,
  kind: QuotaKind,
  wanted: () => number | Promise<number>,
): Promise<Refused | null> {
  const quota = await quotaFor(services, tenantId, kind);
  return quota === null || (await wanted()) <= quota.limit ? null : quota.refused();
}

/** The tier of a tenant. */
export async function tierOf(
  { actors, settings }: Pick<Services, 'actors' | 'settings'>,
  tenantId: Uuid,
): Promise<string> {
  const ref = { kind: 'tenant', id: tenantId } as const;
  const tenant = actors.peek<TenantContext>(ref) ?? (await actors.read<TenantContext>(ref));
  return tenant?.snapshot.context.fixed.tier ?? settings.defaultTier;
}

/** Null without a limit. */
async function quotaFor(
  { actors, settings }: Pick<Services, 'actors' | 'settings'>,
  tenantId: Uuid,
  kind: QuotaKind,
): Promise<{ limit: number; refused(): Refused } | null> {
  const tier = await tierOf({ actors, settings }, tenantId);
  const limit = quotaOf(settings.quotas, kind, tier);
  const detail = `A tenant of the tier ${tier} has at most ${limit} ${quotaKinds[kind]}.`;
  return limit === 0 ? null : { limit, refused: () => refuse('QUOTA_REACHED', detail) };
}

/**
 * Adds one thing to those that `count` finds, unless the tenant has as many as its tier allows. With a limit one at a
 * time, so that concurrent requests do not exceed it.
 */
export async function withinQuota<T>(
  services: Pick<Services, 'actors' | 'locks' | 'settings'>,
  tenantId: Uuid,
  kind: QuotaKind,
  count: () => Promise<number>,
  add: () => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  const quota = await quotaFor(services, tenantId, kind);
  if (quota === null) return add();
  return services.locks.exclusive(`quota:${tenantId}:${kind}`, async () =>
    (await count()) < quota.limit ? add() : quota.refused(),
  );
}
