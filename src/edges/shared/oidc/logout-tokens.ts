import { hash } from 'node:crypto';
import type { JWTPayload } from 'jose';
import { z } from 'zod';
import type { ProviderLogout } from '../../../services/provider-logout.ts';
import type { Provider } from './provider.ts';

/** OpenID Connect Back-Channel Logout 1.0 §2.4. */
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';

const claim = z.string().min(1).max(255);
const logoutSchema = z
  .looseObject({
    iss: z.string(),
    jti: claim,
    exp: z.number(),
    iat: z.number(),
    sub: claim.optional(),
    sid: claim.optional(),
    events: z.looseObject({ [LOGOUT_EVENT]: z.looseObject({}) }),
    /** Prohibited, so that no ID token can be used as a logout token. */
    nonce: z.undefined().optional(),
  })
  .refine(({ sub, sid }) => sub !== undefined || sid !== undefined);

/** The latest time that a `Date` can represent. */
export const MAX_TIME = 8_640_000_000_000_000;

/** Whether a token is a logout token, which must never be accepted as another kind of token. */
export const isLogoutToken = ({ events }: JWTPayload): boolean =>
  typeof events === 'object' && events !== null && Object.hasOwn(events, LOGOUT_EVENT);

/** Id of a session at the provider (`sid`) among the token ids: an ancestor of everything that it leads to. */
export const providerSessionId = (iss: string, sid: string): string =>
  `provider-session:${hash('sha256', `${iss}\n${sid}`, 'base64url')}`;

/**
 * Verifies logout tokens of the provider for the client (OpenID Connect Back-Channel Logout 1.0 §2.6). Null for any other
 * text. Throws `ProviderUnavailable`.
 */
export const logoutTokenVerifier =
  (provider: Provider, clientId: string) =>
  async (token: string): Promise<ProviderLogout | null> => {
    const read = logoutSchema.safeParse(await provider.verifyLogout(token, clientId)).data;
    if (read === undefined) return null;
    const { iss, jti, exp, sub, sid } = read;
    return {
      id: `logout:${hash('sha256', `${iss}\n${jti}`, 'base64url')}`,
      expiresAt: Math.min(Math.floor(exp * 1000), MAX_TIME),
      subject: sub === undefined ? null : { iss, sub },
      session: sid === undefined ? null : providerSessionId(iss, sid),
    };
  };
