import { done, type Outcome, refuse } from '../../../domain/refusals.ts';
import { isTicket, redeemTicket } from '../../../operations/identity/websocket-tickets.ts';
import type { Caller, Services } from '../../../operations/operation.ts';
import type { Authenticator, RequestOrigin } from '../authenticator.ts';
import type { RequestRateLimiter } from '../rate-limiter.ts';

/**
 * Authenticates the client of a WebSocket by a token, an API key or a ticket. A null credential gives an anonymous
 * caller.
 */
export type WebSocketAuthenticator = (
  credential: string | null,
  origin: RequestOrigin & { address: string },
) => Promise<Outcome<Caller>>;

export const makeWebSocketAuthenticator =
  (
    services: Pick<Services, 'users' | 'agentTokens' | 'sealedCache'>,
    identity: Pick<Authenticator, 'authenticate'>,
    rateLimiter: Pick<RequestRateLimiter, 'signInRefusal' | 'recordFailedSignIn'>,
  ): WebSocketAuthenticator =>
  async (credential, origin) => {
    if (credential === null || !isTicket(credential)) return identity.authenticate(credential, origin);
    const limited = rateLimiter.signInRefusal(origin.address);
    if (limited !== null) return { ok: false, refusal: limited };
    const caller = await redeemTicket(services, credential, origin);
    if (caller !== null) return done(caller);
    const refusal = rateLimiter.recordFailedSignIn(origin.address);
    return refusal === null
      ? refuse('UNAUTHENTICATED', 'the ticket was used already or has expired')
      : { ok: false, refusal };
  };
