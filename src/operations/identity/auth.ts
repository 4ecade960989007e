import { z } from 'zod';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { roles } from '../../domain/roles.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { fingerprint, type SessionHolder } from '../../services/cookie-sessions.ts';
import { type BrowserCookies, type Caller, type CookieChange, operation, type Services } from '../operation.ts';
import { invitationEntry, invitationsOf } from './invitations.ts';
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
    summary: 'A member of a tenant, with a token or a cookie session; the same while the tenant is suspended',
    output: member,
  },
  newcomer: {
    summary: 'Somebody without a tenant, who is invited to one',
    output: {
      ...member,
      has_tenant: false,
      user: { ...ADA, role: 'none' as const, tenant_id: null, tenant_slug: null },
      invitations: [{ id: '0195d9a2-7f00-7000-8000-000000000006', tenant_name: 'Lakeside', role: 'user' as const }],
    },
  },
  key: {
    summary: 'An API key of the same person: their user, at most as an admin',
    output: { ...member, user: { ...ADA, role: 'admin' as const } },
  },
};

export const getMe = operation({
  name: 'getMe',
  summary: 'Who the presented credential belongs to',
  input: z.strictObject({}),
  output: z.object({
    authenticated: z.boolean(),
    has_tenant: z.boolean(),
    user: z.object({
      id: z.uuid(),
      ext_id: z.string().meta({ description: 'The subject at who issued the token' }),
      email: z.string().nullable(),
      role: z.enum(roles),
      tenant_id: z.uuid().nullable(),
      tenant_slug: z.string().nullable(),
    }),
    invitations: z.array(invitationEntry).meta({ description: 'To the verified email; a key sees none' }),
    platform_admin: z.literal(true).optional().meta({ description: 'Only there for a platform operator' }),
  }),
  role: 'none',
  scope: null,
  changes: false,
  inSuspension: true,
  examples: meExamples,
  async run(services, { caller }) {
    const { actors } = services;
    const { user, role, tenantId, principal } = caller;
    if (user === null) throw new Error('nobody asked who they are');
    const tenant = tenantId === null ? null : await actors.read<TenantContext>({ kind: 'tenant', id: tenantId });
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
          tenant_slug: tenant?.snapshot.context.slug ?? null,
        },
        invitations: principal.key === undefined ? await invitationsOf(services, user) : [],
        ...(caller.platformAdmin && { platform_admin: true as const }),
      },
    });
  },
});

export const logout = operation({
  name: 'logout',
  summary: 'Revoke the presented token and the one behind the cookie session, and clear the cookies',
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
  async run({ revocations, cookieSessions }, { caller }) {
    const secret = caller.cookies?.session ?? null;
    const session = secret === null ? null : await cookieSessions.find(secret);
    const tokens = new Map(
      [caller.token, session?.token].flatMap((token) => (token ? [[token.id, token] as const] : [])),
    );
    for (const { id, expiresAt } of tokens.values()) await revocations.add(id, expiresAt);
    if (secret === null) return done({ body: { status: 'logged_out' as const } });
    await cookieSessions.close(secret);
    return done({ body: { status: 'logged_out' as const }, cookies: [clearCookie('session'), clearCookie('csrf')] });
  },
});

const clearCookie = (name: CookieChange['name']): CookieChange => ({ name, value: null, until: null });

export const getCsrfToken = operation({
  name: 'getCsrfToken',
  summary: 'Get the token that a cookie session sends as `X-CSRF-Token` with each change',
  input: z.strictObject({}),
  output: z.object({ csrf_token: z.string() }),
  role: null,
  scope: null,
  changes: false,
  async run({ csrf, cookieSessions }, { caller }) {
    const secret = caller.cookies?.session ?? null;
    const session = secret === null ? null : await cookieSessions.find(secret);
    const csrf_token = csrf.issue(session?.name ?? null);
    return done({ body: { csrf_token }, cookies: [{ name: 'csrf' as const, value: csrf_token, until: null }] });
  },
});

export const openCookieSession = operation({
  name: 'openCookieSession',
  summary: 'Turn a person’s token into a cookie session, which ends with the token',
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
  async run(services, { input, caller }) {
    const found = await sessionHolderFor(services, input.token, caller);
    if (!found.ok) return found;
    const { userId } = found.value;
    const user = await services.users.get(userId);
    const about = { subject: `user:${userId}`, tenantId: user?.tenantId ?? null, by: userId };
    return done({ body: null, cookies: await startCookieSession(services, found.value, caller.cookies), about });
  },
});

/** Whose session it will be. What is no link, or none any more, is looked at as a token, and counted where it is none. */
async function sessionHolderFor(services: Services, given: string, caller: Caller): Promise<Outcome<LinkHolder>> {
  const linked = await redeemSignInLink(services, given);
  if (linked !== null) return done(linked);
  const { principal, requestId, address = null } = caller;
  const presented = await services.authenticate(given, { via: principal.via ?? 'rest', requestId, address });
  if (!presented.ok) return presented;
  const { user, token, scopes, platformAdmin } = presented.value;
  if (user === null || token === null || presented.value.principal.person !== true) {
    return refuse('FORBIDDEN', 'A cookie session is a person’s: a key cannot open one.');
  }
  return done({ userId: user.id, scopes, platformAdmin, token });
}

/** Opens a session; the browser's older one is closed, and the CSRF token it has goes on being good. */
export async function startCookieSession(
  { cookieSessions, csrf }: Pick<Services, 'cookieSessions' | 'csrf'>,
  holder: Omit<SessionHolder, 'csrf'>,
  before: BrowserCookies | undefined,
): Promise<CookieChange[]> {
  const { session: older = null, csrf: token = null } = before ?? {};
  const known = token !== null && csrf.isValid(token, null) ? fingerprint(token) : null;
  const { secret, until } = await cookieSessions.open({ ...holder, csrf: known });
  if (older !== null) await cookieSessions.close(older);
  return [{ name: 'session', value: secret, until }];
}
