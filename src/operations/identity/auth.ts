import { z } from 'zod';
import { referenceOf } from '../../domain/clock.ts';
import { roleSchema } from '../../domain/enum-schemas.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { isActiveSnapshot } from '../../machines/tenant-record.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { fingerprint, type SessionHolder } from '../../services/cookie-sessions.ts';
import { chainOf, MAX_ANCESTORS } from '../../services/tokens.ts';
import { isSignedOut, type SessionOrigin } from '../../services/user-sessions.ts';
import { type BrowserCookies, type Caller, type CookieChange, operation, type Services } from '../operation.ts';
import { chainTooLong, remainingLifeS } from './cli-handshake.ts';
import { invitationEntry, invitationsOf } from './invitations.ts';
import { restrictedTo, restrictionBody } from './key-restriction.ts';
import { type LinkHolder, redeemSignInLink } from './sign-in-links.ts';

// For the API reference.
const ADA = {
  id: '0195d9a2-7f00-7000-8000-000000000005',
  ext_id: 'ada',
  email: 'ada@example.com',
  role: 'owner' as const,
  tenant_id: '0195d9a2-7f00-7000-8000-000000000004',
  tenant_slug: 'lakeside',
};
const member = { authenticated: true, has_tenant: true, user: ADA, invitations: [] };
const meExamples = {
  member: {
    summary:
      'A member of a tenant, with a token or a cookie session; while the tenant is suspended with tenant_suspended',
    output: member,
  },
  invited: {
    summary: 'A user without a tenant who has an invitation',
    output: {
      ...member,
      has_tenant: false,
      user: { ...ADA, role: 'none' as const, tenant_id: null, tenant_slug: null },
      invitations: [{ id: '0195d9a2-7f00-7000-8000-000000000006', tenant_name: 'Lakeside', role: 'user' as const }],
    },
  },
  key: {
    summary: 'An API key of the same user, with at most the role admin',
    output: { ...member, user: { ...ADA, role: 'admin' as const } },
  },
};

export const getMe = operation({
  name: 'getMe',
  summary: 'Show the user of the presented credential',
  input: z.strictObject({}),
  output: z.object({
    authenticated: z.boolean(),
    has_tenant: z.boolean(),
    user: z.object({
      id: uuid,
      ext_id: z.string().meta({ description: 'The subject at the token’s issuer' }),
      email: z.string().nullable(),
      role: roleSchema,
      tenant_id: uuid.nullable(),
      tenant_slug: z.string().nullable(),
    }),
    invitations: z
      .array(invitationEntry)
      .meta({ description: 'Invitations to the verified email; empty for API keys' }),
    restrict_to: restrictedTo.optional().meta({ description: 'Present only for restricted API keys' }),
    tenant_suspended: z.literal(true).optional().meta({ description: 'Present only while the tenant is suspended' }),
    suspension_notice: z.string().optional().meta({
      description: 'Notice of the operator of the service for the members of the suspended tenant, if there is one',
    }),
    platform_admin: z.literal(true).optional().meta({ description: 'Present only for platform operators' }),
  }),
  role: 'none',
  scope: null,
  restrictedKeys: 'unaffected',
  changes: false,
  inSuspension: true,
  examples: meExamples,
  needs: ['actors', 'clock', 'store'],
  async run(services, { caller }) {
    const { actors } = services;
    const { user, role, tenantId, principal } = caller;
    if (user === null) throw new Error('getMe requires an authenticated caller');
    const tenant = tenantId === null ? null : await actors.read<TenantContext>({ kind: 'tenant', id: tenantId });
    const notice = tenant?.snapshot.context.fixed.suspensionNotice;
    return done({
      body: {
        authenticated: true,
        has_tenant: tenantId !== null,
        user: {
          id: user.id,
          ext_id: user.sub,
          email: user.email,
          role,
          tenant_id: tenantId,
          tenant_slug: tenant?.snapshot.context.fixed.slug ?? null,
        },
        invitations: principal.key === undefined ? await invitationsOf(services, user) : [],
        ...(caller.restriction && { restrict_to: restrictionBody(caller.restriction) }),
        ...(tenant !== null && !isActiveSnapshot(tenant.snapshot) && { tenant_suspended: true as const }),
        ...(notice !== undefined && { suspension_notice: notice }),
        ...(caller.platformAdmin && { platform_admin: true as const }),
      },
    });
  },
});

export const logout = operation({
  name: 'logout',
  summary:
    'End the presented token or cookie session and everything that was derived from it, and clear the cookies. The token that opened the session stays valid',
  input: z.strictObject({}),
  output: z.object({ status: z.literal('logged_out') }),
  role: null,
  scope: null,
  optionalAuth: true,
  changes: true,
  auditSubject: ({ caller }) => `user:${caller.principal.id}`,
  inMaintenance: true,
  inSuspension: true,
  refuses: ['CSRF_FAILED', 'STORE_UNAVAILABLE', 'OVERLOADED'],
  needs: ['cookieSessions', 'userSessions'],
  async run({ userSessions, cookieSessions }, { caller }) {
    const secret = caller.cookies?.session ?? null;
    const wasComplete = cookieSessions.isComplete();
    const session = secret === null ? null : await cookieSessions.find(secret);
    const tokens = new Map(
      [caller.token, session?.token].flatMap((token) => (token ? [[token.id, token] as const] : [])),
    );
    for (const token of tokens.values()) await userSessions.end(token);
    if (secret === null) return done({ body: { status: 'logged_out' as const } });
    // Its entry is not enough: another process writes it again if Redis comes back empty. Nothing but its token ends it.
    const isUnknown = session === null && !(wasComplete && cookieSessions.isComplete());
    if (isUnknown) return refuse('STORE_UNAVAILABLE', SESSION_UNKNOWN, { retryAfterS: CACHE_RETRY_S });
    await cookieSessions.close(secret);
    return done({ body: { status: 'logged_out' as const }, cookies: [clearCookie('session'), clearCookie('csrf')] });
  },
});

const SESSION_UNKNOWN =
  'The session cannot be ended, because the cache of sessions does not answer. You may still be signed in: try again later.';
const CACHE_RETRY_S = 5;

const clearCookie = (name: CookieChange['name']): CookieChange => ({ name, value: null, until: null });

export const getCsrfToken = operation({
  name: 'getCsrfToken',
  summary: 'Get the token that a cookie session sends as X-CSRF-Token with each change',
  input: z.strictObject({}),
  output: z.object({ csrf_token: z.string() }),
  role: null,
  scope: null,
  changes: false,
  needs: ['cookieSessions', 'csrf'],
  async run({ csrf, cookieSessions }, { caller }) {
    const secret = caller.cookies?.session ?? null;
    const session = secret === null ? null : await cookieSessions.find(secret);
    const csrf_token = csrf.issue(session?.name ?? null);
    return done({ body: { csrf_token }, cookies: [{ name: 'csrf' as const, value: csrf_token, until: null }] });
  },
});

export const openCookieSession = operation({
  name: 'openCookieSession',
  summary: 'Exchange a person’s token for a cookie session, which ends with the token',
  input: z.strictObject({
    token: z.string().min(1).max(8_192).meta({ description: 'A token, or the code of a sign-in link' }),
  }),
  output: z.null(),
  role: null,
  scope: null,
  changes: true,
  inMaintenance: true,
  refuses: ['UNAUTHENTICATED', 'RATE_LIMIT_EXCEEDED', 'FORBIDDEN', 'STORE_UNAVAILABLE', 'OVERLOADED'],
  example: { input: { token: 'eyJhbGciOiJFZERTQSJ9.….…' } },
  needs: [
    ...(['agentTokens', 'authenticate', 'clock', 'cookieSessions', 'csrf'] as const),
    ...(['revocations', 'sealedCache', 'settings', 'users', 'userSessions'] as const),
  ],
  async run(services, { input, caller }) {
    const found = await sessionHolderFor(services, input.token, caller);
    if (!found.ok) return found;
    const { userId } = found.value;
    const user = await services.users.get(userId);
    if (user === null || isSignedOut(user, found.value.token)) {
      return refuse('UNAUTHENTICATED', 'The credential is invalid, expired or revoked.');
    }
    const started = await startCookieSession(services, found.value, caller);
    const about = { subject: `user:${userId}`, tenantId: user.tenantId, by: userId };
    return started.ok ? done({ body: null, cookies: started.value, about }) : started;
  },
});

/**
 * The holder of the new session. A text that is not a valid sign-in link is verified as a token; failures are counted.
 */
async function sessionHolderFor(
  services: Pick<Services, 'agentTokens' | 'authenticate' | 'clock' | 'revocations' | 'sealedCache'>,
  given: string,
  caller: Caller,
): Promise<Outcome<LinkHolder>> {
  const fromLink = await redeemSignInLink(services, given);
  if (fromLink !== null) return done(fromLink);
  const { principal, requestId, address = null, client } = caller;
  const presented = await services.authenticate(given, { via: principal.via ?? 'rest', requestId, address, client });
  if (!presented.ok) return presented;
  const { user, token, scopes, platformAdmin } = presented.value;
  if (user === null || token === null || presented.value.principal.person !== true) {
    return refuse('FORBIDDEN', 'Only a person’s token can open a cookie session, not an API key or a program’s token.');
  }
  return done({ userId: user.id, scopes, platformAdmin, token });
}

/**
 * Opens a session and closes the browser's previous one; the browser's CSRF token stays valid. Like every credential that
 * is derived from a sign-in, the session ends `SESSION_MAX_AGE` after it at the latest.
 */
export async function startCookieSession(
  services: Pick<Services, 'clock' | 'cookieSessions' | 'csrf' | 'settings' | 'userSessions'>,
  { token: origin, ...holder }: Omit<SessionHolder, 'csrf'>,
  { cookies, ...browser }: SessionOrigin & { cookies?: BrowserCookies | undefined },
): Promise<Outcome<CookieChange[]>> {
  const { cookieSessions, csrf } = services;
  if (chainOf(origin).length > MAX_ANCESTORS) return chainTooLong();
  const lifeS = origin.signedInAt === undefined ? null : remainingLifeS(services, origin.signedInAt);
  if (lifeS !== null && lifeS <= 0) return refuse('FORBIDDEN', 'Your sign-in is too old: sign in again.');
  const endsBy = lifeS === null ? Number.POSITIVE_INFINITY : referenceOf(services.clock) + lifeS * 1000;
  const opening = { ...origin, expiresAt: Math.min(origin.expiresAt, endsBy) };
  const { session: previous = null, csrf: token = null } = cookies ?? {};
  const csrfHash = token !== null && csrf.isValid(token, null) ? fingerprint(token) : null;
  const opened = await cookieSessions.open({ ...holder, token: opening, csrf: csrfHash });
  const { secret, until } = opened;
  await services.userSessions.open(holder.userId, opened.token, browser);
  const replaced = previous === null ? null : await cookieSessions.find(previous);
  if (previous !== null) await cookieSessions.close(previous);
  if (replaced !== null) await services.userSessions.forget(replaced.token);
  return done([{ name: 'session', value: secret, until }]);
}
