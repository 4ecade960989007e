import type { Sealer } from '../domain/sealing.ts';
import type { Identity } from '../edges/shared/identity.ts';
import { makeCookieSessions } from '../operations/cookie-sessions.ts';
import { makeCsrf } from '../operations/csrf.ts';
import { makeHandshakes } from '../operations/handshakes.ts';
import type { Services } from '../operations/operation.ts';
import { signToken, type TokenKey } from '../operations/tokens.ts';

type SignInServices = Pick<Services, 'authenticate' | 'signToken' | 'cookieSessions' | 'csrf' | 'handshakes'>;

/** The services that signing in is made of. */
export function signInServices(
  parts: Pick<Services, 'cache' | 'clock'> & {
    sealer: Sealer;
    /** Asked late: it is made from the services. */
    identity(): Pick<Identity, 'authenticate'>;
    tokenKey: TokenKey;
  },
): SignInServices {
  const { clock, identity, tokenKey } = parts;
  return {
    authenticate: async (credential, asking) => identity().authenticate(credential, asking),
    signToken: (token) => signToken(tokenKey, token, clock.now()),
    cookieSessions: makeCookieSessions(parts),
    csrf: makeCsrf(parts.sealer),
    handshakes: makeHandshakes(parts),
  };
}
