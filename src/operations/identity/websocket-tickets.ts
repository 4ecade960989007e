import { hash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { done } from '../../domain/refusals.ts';
import { atMost, roles } from '../../domain/roles.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import { scopesSchema } from '../../services/cookie-sessions.ts';
import { tokenRefSchema } from '../../services/tokens.ts';
import { isSignedOut } from '../../services/user-sessions.ts';
import { type Caller, operation, type Services } from '../operation.ts';
import { storedRestriction } from './key-restriction.ts';

// One-time tickets for WebSockets: a browser can send credentials only in the URL, where a token would leak into logs.

/** Lifetime of a ticket, in seconds (contract §6). */
export const TICKET_LIFE_S = 30;
const PREFIX = 'ws_';
const TICKET = /^ws_[A-Za-z0-9_-]{43}$/;

/** The cache entry under the ticket's hash. */
const ticketHolder = z.object({
  userId: uuid,
  tenantId: uuid.nullable(),
  role: z.enum(roles),
  platformAdmin: z.boolean(),
  scopes: scopesSchema,
  key: z.string().optional(),
  person: z.boolean().optional(),
  token: tokenRefSchema.nullable(),
  endsAt: z.number().nullable(),
  /**
   * Of a restricted key. Its scopes are here instead of in `scopes`, which is empty then: a build that does not know
   * restrictions grants nothing.
   */
  restricted: z.object({ restriction: storedRestriction, scopes: scopesSchema }).optional(),
});

export const createWsTicket = operation({
  name: 'createWsTicket',
  summary: 'Create a ticket that opens one WebSocket within 30 seconds',
  input: z.strictObject({}),
  output: z.object({
    ticket: z.string().meta({ description: 'The value of `token` at `/ws/state` or `/ws/actors`' }),
    expires_in: z.int().meta({ description: 'Seconds' }),
  }),
  role: 'user',
  acrossTenants: true,
  scope: 'read:devices',
  restrictedKeys: 'devices',
  changes: true,
  auditSubject: ({ caller }) => `user:${caller.principal.id}`,
  inMaintenance: true,
  needs: ['sealedCache'],
  async run({ sealedCache }, { caller }) {
    const { user, principal, tenantId, role, platformAdmin, scopes, token, endsAt, restriction } = caller;
    if (user === null) throw new Error('createWsTicket requires an authenticated caller');
    const { key, person } = principal;
    const holder = {
      userId: user.id,
      tenantId,
      role,
      platformAdmin,
      scopes: restriction === undefined ? scopes : [],
      key,
      person,
      token,
      endsAt,
      restricted: restriction && { restriction, scopes },
    } satisfies Record<keyof z.infer<typeof ticketHolder>, unknown>;
    const ticket = PREFIX + randomBytes(32).toString('base64url');
    await sealedCache.set(cacheKey(ticket), JSON.stringify(holder), TICKET_LIFE_S * 1000);
    return done({ body: { ticket, expires_in: TICKET_LIFE_S } });
  },
});

export const isTicket = (credential: string): boolean => TICKET.test(credential);

/**
 * Consumes a ticket and returns its caller, with the user's current role but at most the rights of the credential at
 * the time. Null if the ticket is unknown, used or expired. The caller must check whether the credential was revoked
 * since.
 */
export async function redeemTicket(
  { sealedCache, users, agentTokens }: Pick<Services, 'sealedCache' | 'users' | 'agentTokens'>,
  ticket: string,
  attempt: { via: string; requestId: Uuid; address?: string | null; client?: string | null | undefined },
): Promise<Caller | null> {
  const stored = TICKET.test(ticket) ? await sealedCache.take(cacheKey(ticket)) : null;
  if (stored === null) return null;
  const { userId, tenantId, role, platformAdmin, scopes, key, person, token, endsAt, restricted } = ticketHolder.parse(
    JSON.parse(stored),
  );
  const user = await users.get(userId);
  if (user === null || user.tenantId !== tenantId || isSignedOut(user, token)) return null;
  return {
    user,
    principal: {
      kind: 'user',
      id: user.id,
      via: attempt.via,
      requestId: attempt.requestId,
      ...(key !== undefined && { key }),
      person: person === true && (token === null || !(await agentTokens.has(userId, token))),
    },
    tenantId,
    role: atMost(user.role, role),
    scopes: restricted === undefined ? scopes : restricted.scopes,
    ...(restricted !== undefined && { restriction: restricted.restriction }),
    platformAdmin,
    token,
    endsAt,
    requestId: attempt.requestId,
    address: attempt.address ?? null,
    client: attempt.client ?? null,
  };
}

/** The user, tenant and rights of a ticket, which stays valid; null if it is unknown, used or expired. */
export async function peekTicket(
  { sealedCache }: Pick<Services, 'sealedCache'>,
  ticket: string,
): Promise<{ userId: Uuid; tenantId: Uuid | null; platformAdmin: boolean } | null> {
  const stored = TICKET.test(ticket) ? await sealedCache.get(cacheKey(ticket)) : null;
  if (stored === null) return null;
  const { userId, tenantId, platformAdmin } = ticketHolder.parse(JSON.parse(stored));
  return { userId, tenantId, platformAdmin };
}

const cacheKey = (ticket: string): string => `ticket:${hash('sha256', ticket)}`;
