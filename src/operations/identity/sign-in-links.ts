import { hash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { done, refuse } from '../../domain/refusals.ts';
import { type SessionHolder, scopesSchema } from '../../services/cookie-sessions.ts';
import { tokenRefSchema } from '../../services/tokens.ts';
import { operation, type Services } from '../operation.ts';

// A link that signs a browser in, once: instead of a token, which would stay good wherever a URL is kept. The code stands
// in the fragment, so that no server, proxy or preview of the link ever gets it; the console hands it in.

/** Seconds a link can be used in. */
export const LINK_LIFE_S = 600;
const PREFIX = 'link_';
const CODE = /^link_[A-Za-z0-9_-]{43}$/;

/** What the cache keeps under the code's hash: what a session will stand for. */
const linkHolder = z.object({
  userId: z.uuid(),
  scopes: scopesSchema,
  platformAdmin: z.boolean(),
  token: tokenRefSchema,
});
export type LinkHolder = Omit<SessionHolder, 'csrf'>;

export const createSignInLink = operation({
  name: 'createSignInLink',
  summary: 'Get a link that signs one browser in to the console within 10 minutes, as you',
  input: z.strictObject({}),
  output: z.object({
    url: z.string().meta({ description: 'Of the console; its fragment holds the code, which is good once' }),
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
  async run({ sealedCache, settings }, { caller }) {
    const { user, scopes, platformAdmin, token } = caller;
    if (user === null || token === null) return refuse('FORBIDDEN', 'A link is made with a token of a person.');
    const code = PREFIX + randomBytes(32).toString('base64url');
    const holder: LinkHolder = { userId: user.id, scopes, platformAdmin, token };
    await sealedCache.set(keyOf(code), JSON.stringify(holder), LINK_LIFE_S * 1000);
    const url = `${settings.apiBaseUrl.replace(/\/v1$/, '')}/console#sign-in=${code}`;
    return done({ body: { url, expires_in: LINK_LIFE_S } });
  },
});

/**
 * Uses a link up: what its session stands for. Null for what is no code, or one that is unknown, used or too old, and where
 * its token was revoked or is no person's any more.
 */
export async function redeemSignInLink(
  { sealedCache, agentTokens, revocations }: Pick<Services, 'sealedCache' | 'agentTokens' | 'revocations'>,
  code: string,
): Promise<LinkHolder | null> {
  const kept = CODE.test(code) ? await sealedCache.take(keyOf(code)) : null;
  if (kept === null) return null;
  const holder = linkHolder.parse(JSON.parse(kept));
  const { userId, token } = holder;
  return revocations.has(token.id) || agentTokens.has(userId, token.id) ? null : holder;
}

const keyOf = (code: string): string => `sign-in link:${hash('sha256', code)}`;
