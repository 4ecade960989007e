import { hash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { referenceOf } from '../../domain/clock.ts';
import { done, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { type SessionHolder, scopesSchema } from '../../services/cookie-sessions.ts';
import { someInChain, tokenRefSchema } from '../../services/tokens.ts';
import { isSignedOut } from '../../services/user-sessions.ts';
import { operation, type Services } from '../operation.ts';

// One-time links that sign a browser in. Safer than a token in a URL, which would stay valid in histories and logs. The
// code is in the fragment, so that servers, proxies and link previews do not receive it; the console sends it.

/** Lifetime of a link, in seconds. */
export const LINK_LIFE_S = 600;
const PREFIX = 'link_';
const CODE = /^link_[A-Za-z0-9_-]{43}$/;

/** The cache entry under the code's hash: the holder of the session to be opened. */
const linkHolder = z.object({
  userId: uuid,
  scopes: scopesSchema,
  platformAdmin: z.boolean(),
  token: tokenRefSchema,
});
export type LinkHolder = Omit<SessionHolder, 'csrf'>;

export const createSignInLink = operation({
  name: 'createSignInLink',
  summary: 'Create a link that signs one browser in to the console as you, within 10 minutes',
  input: z.strictObject({}),
  output: z.object({
    url: z.string().meta({ description: 'URL of the console; its fragment has the code, which can be used once' }),
    expires_in: z.int().meta({ description: 'Seconds' }),
  }),
  role: 'none',
  scope: null,
  personOnly: true,
  changes: true,
  auditSubject: ({ caller }) => `user:${caller.principal.id}`,
  inMaintenance: true,
  inSuspension: true,
  refuses: ['FORBIDDEN'],
  needs: ['sealedCache', 'settings'],
  async run({ sealedCache, settings }, { caller }) {
    const { user, scopes, platformAdmin, token } = caller;
    if (user === null || token === null)
      return refuse('FORBIDDEN', 'Creating a sign-in link requires a person’s token.');
    const code = PREFIX + randomBytes(32).toString('base64url');
    const holder: LinkHolder = { userId: user.id, scopes, platformAdmin, token };
    await sealedCache.set(keyOf(code), JSON.stringify(holder), LINK_LIFE_S * 1000);
    const url = `${settings.apiBaseUrl.replace(/\/v1$/, '')}/console#sign-in=${code}`;
    return done({ body: { url, expires_in: LINK_LIFE_S } });
  },
});

export const showSignInLink = operation({
  name: 'showSignInLink',
  summary: 'Show the user that a sign-in link signs in, without using it',
  input: z.strictObject({
    code: z.string().max(128).default('').meta({ description: 'The code in the fragment of the link' }),
  }),
  output: z.object({ ext_id: z.string(), email: z.string().nullable() }),
  role: null,
  scope: null,
  changes: false,
  refuses: ['NOT_FOUND', 'STORE_UNAVAILABLE'],
  example: { output: { ext_id: 'ada', email: 'ada@example.com' } },
  needs: ['agentTokens', 'revocations', 'sealedCache', 'users'],
  async run(services, { input: { code } }) {
    const stored = CODE.test(code) ? await services.sealedCache.get(keyOf(code)) : null;
    const holder = stored === null ? null : await validHolder(services, code, stored);
    const user = holder === null ? null : await services.users.get(holder.userId);
    if (holder === null || user === null || isSignedOut(user, holder.token)) {
      return refuse('NOT_FOUND', 'The link was already used or is older than 10 minutes.');
    }
    return done({ body: { ext_id: user.sub, email: user.email } });
  },
});

/**
 * Consumes a link and returns the holder of the new session. Null if the text is not a code, the code is unknown, used
 * or expired, or its token was revoked or presented at `/mcp`.
 */
export async function redeemSignInLink(
  services: Pick<Services, 'sealedCache' | 'agentTokens' | 'clock' | 'revocations'>,
  code: string,
): Promise<LinkHolder | null> {
  const stored = CODE.test(code) ? await services.sealedCache.take(keyOf(code)) : null;
  const holder = stored === null ? null : await validHolder(services, code, stored);
  // In the store as well: the process that made the link writes its entry again when Redis comes back empty.
  if (holder !== null) await services.revocations.add(keyOf(code), referenceOf(services.clock) + LINK_LIFE_S * 1000);
  return holder;
}

async function validHolder(
  { agentTokens, revocations }: Pick<Services, 'agentTokens' | 'revocations'>,
  code: string,
  stored: string,
): Promise<LinkHolder | null> {
  if (await revocations.has(keyOf(code))) return null;
  const holder = linkHolder.parse(JSON.parse(stored));
  const { userId, token } = holder;
  return (await someInChain(token, revocations.has)) || (await agentTokens.has(userId, token)) ? null : holder;
}

/** The key of its entry in the cache, and its id among the revoked tokens once it was used. */
const keyOf = (code: string): string => `sign-in link:${hash('sha256', code)}`;
