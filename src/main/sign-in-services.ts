import type { Oidc } from '../config.ts';
import { type Clock, referenceOf } from '../domain/clock.ts';
import type { Log } from '../domain/log.ts';
import type { Sealer } from '../domain/sealing.ts';
import type { Identity, Verifier } from '../edges/shared/identity.ts';
import { type BrowserSignIn, makeBrowserSignIn } from '../edges/shared/oidc/browser-sign-in.ts';
import { externalTokenVerifier } from '../edges/shared/oidc/external-tokens.ts';
import { makeProvider } from '../edges/shared/oidc/provider.ts';
import type { Services } from '../operations/operation.ts';
import { makeCookieSessions } from '../services/cookie-sessions.ts';
import { makeCsrfTokens } from '../services/csrf-tokens.ts';
import { makeHandshakes } from '../services/handshakes.ts';
import { makeSealedCache } from '../services/sealed-cache.ts';
import { signToken, type TokenKey } from '../services/tokens.ts';

type SignInServices = Pick<
  Services,
  'authenticate' | 'signToken' | 'sealedCache' | 'cookieSessions' | 'csrf' | 'handshakes'
>;

/** The services that signing in is made of. */
export function makeSignInServices(
  parts: Pick<Services, 'cache' | 'clock'> & {
    sealer: Sealer;
    /** Asked late: it is made from the services. */
    identity(): Pick<Identity, 'authenticate'>;
    tokenKey: TokenKey;
  },
): SignInServices {
  const { clock, identity, tokenKey, sealer } = parts;
  const vault = makeSealedCache(parts.cache, sealer);
  return {
    authenticate: async (credential, asking) => identity().authenticate(credential, asking),
    signToken: (token) => signToken(tokenKey, token, referenceOf(clock)),
    sealedCache: vault,
    cookieSessions: makeCookieSessions({ vault, clock }),
    csrf: makeCsrfTokens(sealer),
    handshakes: makeHandshakes({ vault, clock }),
  };
}

/** What a configured identity provider adds: its tokens, and where it has a client for us, signing in at it. */
export function makeIdentityProvider(
  oidc: Readonly<Oidc> | null,
  around: { sealer: Sealer; clock: Clock; log: Log; redirectUri(): string },
): { verifiers: Verifier[]; signIn: BrowserSignIn | null } {
  if (oidc === null) return { verifiers: [], signIn: null };
  const provider = makeProvider(oidc, around);
  const { client, platformClaim } = oidc;
  const signIn =
    client === null
      ? null
      : makeBrowserSignIn(provider, { client, platformClaim, redirectUri: around.redirectUri }, around);
  return { verifiers: [externalTokenVerifier(provider, oidc, around.clock)], signIn };
}
