import { done, type Outcome, refuse } from '../../../domain/refusals.ts';
import { isTicket, redeemTicket } from '../../../operations/identity/websocket-tickets.ts';
import type { Caller, Services } from '../../../operations/operation.ts';
import type { Identity, RequestOrigin } from '../identity.ts';
import type { RateLimiter } from '../rate-limiter.ts';

/** Who opens a WebSocket: by a token, an API key or a ticket. Null as a credential is nobody. */
export type WebSocketAuthenticator = (
  credential: string | null,
  asking: RequestOrigin & { address: string },
) => Promise<Outcome<Caller>>;

export const makeWebSocketAuthenticator =
  (
    services: Pick<Services, 'users' | 'agentTokens' | 'sealedCache'>,
    identity: Pick<Identity, 'authenticate'>,
    gate: Pick<RateLimiter, 'signInRefusal' | 'recordFailedSignIn'>,
  ): WebSocketAuthenticator =>
  async (credential, asking) => {
    if (credential === null || !isTicket(credential)) return identity.authenticate(credential, asking);
    const barred = gate.signInRefusal(asking.address);
    if (barred !== null) return { ok: false, refusal: barred };
    const caller = await redeemTicket(services, credential, asking);
    if (caller !== null) return done(caller);
    const refusal = gate.recordFailedSignIn(asking.address);
    return refusal === null ? refuse('UNAUTHENTICATED', 'the ticket is used or too old') : { ok: false, refusal };
  };
