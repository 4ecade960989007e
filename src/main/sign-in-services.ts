import type { Oidc } from '../config/oidc.ts';
import { type Clock, referenceOf } from '../domain/clock.ts';
import type { Log } from '../domain/log.ts';
import type { Sealer } from '../domain/sealing.ts';
import type { Authenticator, Verifier } from '../edges/shared/authenticator.ts';
import { BrowserSignIn } from '../edges/shared/oidc/browser-sign-in.ts';
import { externalTokenVerifier } from '../edges/shared/oidc/external-tokens.ts';
import { logoutTokenVerifier } from '../edges/shared/oidc/logout-tokens.ts';
import { makeProvider } from '../edges/shared/oidc/provider.ts';
import type { Services } from '../operations/operation.ts';
import { makeCookieSessions } from '../services/cookie-sessions.ts';
import { makeCsrfTokens } from '../services/csrf-tokens.ts';
import { Handshakes } from '../services/handshakes.ts';
import type { LogoutTokenVerifier } from '../services/provider-logout.ts';
import { makeSealedCache } from '../services/sealed-cache.ts';
import { signToken, type TokenKey } from '../services/tokens.ts';

type SignInServices = Pick<
  Services,
  'authenticate' | 'verifyLogoutToken' | 'signToken' | 'sealedCache' | 'cookieSessions' | 'csrf' | 'handshakes'
>;

/** Creates the services for signing in. */
export function makeSignInServices(
  parts: Pick<Services, 'cache' | 'clock' | 'invalidations'> & {
    sealer: Sealer;
    /** A function, because the identity is created from these services. */
    identity(): Pick<Authenticator, 'authenticate'>;
    /** Default: there is no identity provider. */
    verifyLogoutToken?: Services['verifyLogoutToken'];
    tokenKey: TokenKey;
  },
): SignInServices {
  const { clock, identity, invalidations, tokenKey, sealer } = parts;
  const sealedCache = makeSealedCache(parts.cache, sealer);
  return {
    verifyLogoutToken: parts.verifyLogoutToken ?? (() => null),
    authenticate: async (credential, context) => identity().authenticate(credential, context),
    signToken: (token) => signToken(tokenKey, token, referenceOf(clock)),
    sealedCache,
    cookieSessions: makeCookieSessions({
      ...{ sealedCache, clock, invalidations },
      isComplete: () => parts.cache.isComplete(),
    }),
    csrf: makeCsrfTokens(sealer),
    handshakes: new Handshakes({ sealedCache, cache: parts.cache, clock }),
  };
}

/** Creates the token verifier of a configured identity provider and, if it has a client, the browser sign-in. */
export function makeIdentityProvider(
  oidc: Readonly<Oidc> | null,
  parts: { sealer: Sealer; clock: Clock; log: Log; redirectUri(): string },
): { verifiers: Verifier[]; signIn: BrowserSignIn | null; verifyLogout: ReturnType<LogoutTokenVerifier> } {
  if (oidc === null) return { verifiers: [], signIn: null, verifyLogout: null };
  const provider = makeProvider(oidc, parts);
  const { client, platformClaim } = oidc;
  const signIn =
    client === null
      ? null
      : new BrowserSignIn(provider, { client, platformClaim, redirectUri: parts.redirectUri }, parts);
  const verifyLogout = client === null ? null : logoutTokenVerifier(provider, client.id);
  return { verifiers: [externalTokenVerifier(provider, oidc, parts.clock)], signIn, verifyLogout };
}
