import { done, type Outcome, type Refusal, refuse } from '../../../domain/refusals.ts';
import { atLeast, atMost } from '../../../domain/roles.ts';
import { allowsScope } from '../../../domain/scopes.ts';
import type { EpochMs } from '../../../domain/values.ts';
import type { TenantContext } from '../../../machines/tenant-types.ts';
import type { Caller, Services } from '../../../operations/operation.ts';
import type { User } from '../../../services/user-cache.ts';
import type { Subscription } from './subscription.ts';

const refusal = (...args: Parameters<typeof refuse>): Refusal => refuse(...args).refusal;

/** Why a caller may not hear what it asked for, as far as the caller itself tells; null where it may. */
export function checkAccess(caller: Caller, interest: Subscription): Refusal | null {
  if (caller.user === null) return refusal('UNAUTHENTICATED', 'token must be a valid credential');
  const operates = interest.tenantId !== null;
  if (operates && !caller.platformAdmin) return refusal('FORBIDDEN', 'only platform operators may name a tenant');
  if (!operates && caller.tenantId === null) return refusal('TENANT_REQUIRED', 'register a tenant first');
  for (const [kind, { role, scope }] of interest.kinds) {
    if (!operates && !atLeast(caller.role, role)) return refusal('FORBIDDEN_ROLE', `${kind} needs the role ${role}`);
    if (!allowsScope(caller.scopes, scope)) return refusal('INSUFFICIENT_SCOPE', `${kind} needs the scope ${scope}`);
  }
  return null;
}

/** Why a caller let in earlier has to go now that its user is `user`; null where it may stay. */
export function recheckAccess(caller: Caller, interest: Subscription, user: User | null): Refusal | null {
  if (user === null) return refusal('UNAUTHENTICATED', 'the user is gone');
  if (interest.tenantId === null && user.tenantId !== caller.tenantId)
    return refusal('TENANT_REQUIRED', 'no longer in this tenant');
  return checkAccess({ ...caller, role: atLeast(user.role, caller.role) ? caller.role : user.role }, interest);
}

/** Whether its credential is over. The clocks' leeway is for signing in; a connection ends on time. */
export function checkExpiry({ endsAt }: Caller, now: EpochMs): Refusal | null {
  return endsAt !== null && endsAt <= now ? refusal('UNAUTHENTICATED', 'the credential has expired') : null;
}

export const revokedRefusal = (): Refusal => refusal('UNAUTHENTICATED', 'the credential was revoked');
export const suspendedRefusal = (): Refusal => refusal('TENANT_SUSPENDED', 'the tenant is suspended');

/** What the caller alone does not tell: looked at after it is listened to, so that no change is missed in between. */
export async function checkCurrentAccess(
  { actors, users, revocations, apiKeys }: Pick<Services, 'actors' | 'users' | 'revocations' | 'apiKeys'>,
  caller: Caller,
  interest: Subscription,
): Promise<Refusal | null> {
  const { user, token, principal } = caller;
  const tenantId = interest.tenantId ?? caller.tenantId;
  if (user === null || tenantId === null) return checkAccess(caller, interest);
  const ref = { kind: 'tenant', id: tenantId } as const;
  const tenant = actors.peek<TenantContext>(ref) ?? (await actors.read<TenantContext>(ref));
  if (tenant === null) return refusal('NOT_FOUND', 'there is no such tenant');
  if (tenant.snapshot.value !== 'active' && interest.tenantId === null) return suspendedRefusal();
  if (token !== null && revocations.has(token.id)) return revokedRefusal();
  if (principal.key !== undefined && !(await apiKeys.isLive(principal.key))) return revokedRefusal();
  return recheckAccess(caller, interest, await users.get(user.id));
}

/** The caller as they are now, for what they ask on a connection that lasts; refuses whoever has to go. */
export async function refreshCaller(
  { users, agentTokens }: Pick<Services, 'users' | 'agentTokens'>,
  caller: Caller,
): Promise<Outcome<Caller>> {
  const user = caller.user === null ? null : (users.cached(caller.user.id) ?? (await users.get(caller.user.id)));
  const { token, principal } = caller;
  if (user === null || user.tenantId !== caller.tenantId) return refuse('UNAUTHENTICATED', 'sign in again');
  const person = principal.person === true && (token === null || !agentTokens.has(user.id, token.id));
  return done({ ...caller, user, role: atMost(user.role, caller.role), principal: { ...principal, person } });
}
