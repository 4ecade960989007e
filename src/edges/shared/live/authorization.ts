import { done, type Outcome, type Refusal, refuse } from '../../../domain/refusals.ts';
import { atLeast, atMost } from '../../../domain/roles.ts';
import { allowsScope } from '../../../domain/scopes.ts';
import type { EpochMs } from '../../../domain/values.ts';
import type { TenantContext } from '../../../machines/tenant-types.ts';
import type { Caller, Services } from '../../../operations/operation.ts';
import { someInChain } from '../../../services/tokens.ts';
import type { User } from '../../../services/user-cache.ts';
import { isSignedOut } from '../../../services/user-sessions.ts';
import type { Subscription } from './subscription.ts';

const refusal = (...args: Parameters<typeof refuse>): Refusal => refuse(...args).refusal;

/** Checks a subscription against the caller's own data. Null if it is permitted. */
export function checkAccess(caller: Caller, subscription: Subscription): Refusal | null {
  if (caller.user === null) return refusal('UNAUTHENTICATED', 'token must be a valid credential');
  const isOperator = subscription.tenantId !== null;
  if (isOperator && !caller.platformAdmin)
    return refusal('FORBIDDEN', 'tenant_id may be used by platform operators only');
  if (!isOperator && caller.tenantId === null)
    return refusal('TENANT_REQUIRED', 'you are not a member of a tenant; register one first');
  for (const [kind, { role, scope, forRestrictedKeys }] of subscription.kinds) {
    if (!isOperator && !atLeast(caller.role, role)) return refusal('FORBIDDEN_ROLE', `${kind} needs the role ${role}`);
    if (!allowsScope(caller.scopes, scope)) return refusal('INSUFFICIENT_SCOPE', `${kind} needs the scope ${scope}`);
    if (caller.restriction !== undefined && !forRestrictedKeys)
      return refusal('KEY_RESTRICTED', `${kind} is not for keys that are restricted`);
  }
  return null;
}

/** Checks an open connection again after its user has changed to `user`. Null if it may continue. */
export function recheckAccess(caller: Caller, subscription: Subscription, user: User | null): Refusal | null {
  if (user === null) return refusal('UNAUTHENTICATED', 'the user no longer exists');
  if (subscription.tenantId === null && user.tenantId !== caller.tenantId)
    return refusal('TENANT_REQUIRED', 'the user is no longer in this tenant');
  if (isSignedOut(user, caller.token)) return revokedRefusal();
  return checkAccess({ ...caller, role: atLeast(user.role, caller.role) ? caller.role : user.role }, subscription);
}

/** Checks whether the credential has expired. Clock leeway applies to sign-in only; a connection ends on time. */
export function checkExpiry({ endsAt }: Caller, now: EpochMs): Refusal | null {
  return endsAt !== null && endsAt <= now ? refusal('UNAUTHENTICATED', 'the credential has expired') : null;
}

/** Moves the end of a connection's credential forward: a rotated key ends before the expiry that it signed in with. */
export function endBy(caller: Caller, at: EpochMs | null): void {
  if (at !== null && (caller.endsAt === null || caller.endsAt > at)) caller.endsAt = at;
}

export const revokedRefusal = (): Refusal => refusal('UNAUTHENTICATED', 'the credential was revoked');
/** The connection was opened while the tenant moved to another node; the client reaches that node when it connects again. */
const movedRefusal = (): Refusal =>
  refuse('OVERLOADED', 'The tenant is moving to another node; connect again.', { retryAfterS: 1 }).refusal;
export const suspendedRefusal = (): Refusal => refusal('TENANT_SUSPENDED', 'the tenant is suspended');

/**
 * Checks tenant, revocation and user as of now. To be called after subscribing to their changes, so that none is
 * missed.
 */
export async function checkCurrentAccess(
  { actors, users, revocations, apiKeys }: Pick<Services, 'actors' | 'users' | 'revocations' | 'apiKeys'>,
  caller: Caller,
  subscription: Subscription,
): Promise<Refusal | null> {
  const { user, token, principal } = caller;
  const tenantId = subscription.tenantId ?? caller.tenantId;
  if (user === null || tenantId === null) return checkAccess(caller, subscription);
  if (!actors.owns(tenantId)) return movedRefusal();
  const ref = { kind: 'tenant', id: tenantId } as const;
  const tenant = actors.peek<TenantContext>(ref) ?? (await actors.read<TenantContext>(ref));
  if (tenant === null) return refusal('NOT_FOUND', 'the tenant does not exist');
  if (tenant.snapshot.value !== 'active' && subscription.tenantId === null) return suspendedRefusal();
  if (token !== null && (await someInChain(token, revocations.has))) return revokedRefusal();
  if (principal.key !== undefined) {
    const key = await apiKeys.findValid(principal.key);
    if (key === null) return revokedRefusal();
    endBy(caller, key.expiresAt);
  }
  return recheckAccess(caller, subscription, await users.get(user.id));
}

/**
 * The caller with current user data, for a request on a long-lived connection; refuses a caller that is no longer
 * valid.
 */
export async function refreshCaller(
  { users, agentTokens }: Pick<Services, 'users' | 'agentTokens'>,
  caller: Caller,
): Promise<Outcome<Caller>> {
  const user = caller.user === null ? null : (users.cached(caller.user.id) ?? (await users.get(caller.user.id)));
  const { token, principal } = caller;
  if (user === null || user.tenantId !== caller.tenantId || isSignedOut(user, token))
    return refuse('UNAUTHENTICATED', 'sign in again');
  const person = principal.person === true && (token === null || !(await agentTokens.has(user.id, token)));
  return done({ ...caller, user, role: atMost(user.role, caller.role), principal: { ...principal, person } });
}
