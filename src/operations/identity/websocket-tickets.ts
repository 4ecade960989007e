import { hash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { done } from '../../domain/refusals.ts';
import { atMost, roles } from '../../domain/roles.ts';
import { isScope, type Scope } from '../../domain/scopes.ts';
import type { Uuid } from '../../domain/values.ts';
import { tokenRefSchema } from '../../services/tokens.ts';
import { type Caller, operation, type Services } from '../operation.ts';

// A ticket stands for the credential that asked for it, once: a browser puts it into a URL, where a token would stay.

/** Seconds a ticket can be used in (contract §6). */
export const TICKET_LIFE_S = 30;
const PREFIX = 'ws_';
const TICKET = /^ws_[A-Za-z0-9_-]{43}$/;

/** What the cache keeps under the ticket's hash. */
const ticketHolder = z.object({
  userId: z.uuid(),
  tenantId: z.uuid().nullable(),
  role: z.enum(roles),
  platformAdmin: z.boolean(),
  scopes: z.array(z.custom<Scope>((text) => typeof text === 'string' && isScope(text))).nullable(),
  key: z.string().optional(),
  person: z.boolean().optional(),
  token: tokenRefSchema.nullable(),
  endsAt: z.number().nullable(),
});

export const createWsTicket = operation({
  name: 'createWsTicket',
  summary: 'Get a ticket that opens one WebSocket within 30 seconds',
  input: z.strictObject({}),
  output: z.object({
    ticket: z.string().meta({ description: 'The value of `token` at `/ws/state` or `/ws/actors`' }),
    expires_in: z.int().meta({ description: 'Seconds' }),
  }),
  role: 'user',
  acrossTenants: true,
  scope: 'read:devices',
  changes: true,
  audit: 'none',
  inMaintenance: true,
  async run({ sealedCache }, { caller }) {
    const { user, principal, tenantId, role, platformAdmin, scopes, token, endsAt } = caller;
    if (user === null) throw new Error('nobody asked for a ticket');
    const { key, person } = principal;
    const holder = {
      userId: user.id,
      tenantId,
      role,
      platformAdmin,
      scopes,
      key,
      person,
      token,
      endsAt,
    } satisfies Record<keyof z.infer<typeof ticketHolder>, unknown>;
    const ticket = PREFIX + randomBytes(32).toString('base64url');
    await sealedCache.set(cacheKey(ticket), JSON.stringify(holder), TICKET_LIFE_S * 1000);
    return done({ body: { ticket, expires_in: TICKET_LIFE_S } });
  },
});

export const isTicket = (credential: string): boolean => credential.startsWith(PREFIX);

/**
 * Uses a ticket up: who it stands for, as their user is now, with no more than the credential could when the ticket was
 * made. Null for one that is unknown, used or too old. Whether the credential was revoked since is the caller's to check.
 */
export async function redeemTicket(
  { sealedCache, users, agentTokens }: Pick<Services, 'sealedCache' | 'users' | 'agentTokens'>,
  ticket: string,
  asking: { via: string; requestId: Uuid },
): Promise<Caller | null> {
  const kept = TICKET.test(ticket) ? await sealedCache.take(cacheKey(ticket)) : null;
  if (kept === null) return null;
  const { userId, tenantId, role, platformAdmin, scopes, key, person, token, endsAt } = ticketHolder.parse(
    JSON.parse(kept),
  );
  const user = await users.get(userId);
  if (user === null || user.tenantId !== tenantId) return null;
  return {
    user,
    principal: {
      kind: 'user',
      id: user.id,
      via: asking.via,
      requestId: asking.requestId,
      ...(key !== undefined && { key }),
      person: person === true && (token === null || !agentTokens.has(userId, token.id)),
    },
    tenantId,
    role: atMost(user.role, role),
    scopes,
    platformAdmin,
    token,
    endsAt,
    requestId: asking.requestId,
  };
}

const cacheKey = (ticket: string): string => `ticket:${hash('sha256', ticket)}`;
