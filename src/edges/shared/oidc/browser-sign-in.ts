import * as oidc from 'openid-client';
import { z } from 'zod';
import { type Clock, referenceOf } from '../../../domain/clock.ts';
import type { Log } from '../../../domain/log.ts';
import { done, type Outcome, refuse } from '../../../domain/refusals.ts';
import type { Sealer } from '../../../domain/sealing.ts';
import type { EpochMs } from '../../../domain/values.ts';
import { ProviderUnavailable } from '../../../operations/faults.ts';
import { LEEWAY_S } from '../../../services/tokens.ts';
import { type PlatformClaim, type ProofOfSubject, proofOf } from './external-tokens.ts';
import { boundedFetch } from './fetch-json.ts';
import type { Provider } from './provider.ts';

/** How long a person has at the provider. */
const LIFE_MS = 600_000;
const SEALING_CONTEXT = 'sign-in at the identity provider';
const SCOPE = 'openid email';

const attemptSchema = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  returnTo: z.string(),
  until: z.number(),
});

/** Signing in at the identity provider: authorization code with PKCE (contract §3). */
export interface BrowserSignIn {
  /** Where the person goes, and what their browser keeps meanwhile, sealed. Throws `ProviderAway`. */
  begin(returnTo: string): Promise<{ url: string; cookie: string; until: EpochMs }>;
  /** `query` is what the provider sent the person back with. Throws `ProviderAway`. */
  finish(query: string, cookie: string | null): Promise<Outcome<{ proof: ProofOfSubject; returnTo: string }>>;
}

export interface BrowserSignInSettings {
  client: { id: string; secret: string | null };
  platformClaim: PlatformClaim | null;
  /** Where the provider sends people back to; known when the service listens. */
  redirectUri(): string;
}

export function makeBrowserSignIn(
  provider: Provider,
  settings: BrowserSignInSettings,
  { sealer, clock, log }: { sealer: Sealer; clock: Clock; log: Log },
): BrowserSignIn {
  async function client(): Promise<oidc.Configuration> {
    const metadata = await provider.metadata();
    if (metadata.authorization_endpoint === undefined || metadata.token_endpoint === undefined) {
      log.warn({ issuer: provider.issuer }, 'the identity provider signs nobody in with a browser');
      throw new ProviderUnavailable('no authorization or token endpoint');
    }
    const { id, secret } = settings.client;
    const configuration = new oidc.Configuration(
      metadata as oidc.ServerMetadata,
      id,
      {
        // The library reads the real time: this makes it the service's.
        [oidc.clockSkew]: (referenceOf(clock) - Date.now()) / 1000,
        [oidc.clockTolerance]: LEEWAY_S,
      },
      authentication(metadata.token_endpoint_auth_methods_supported, secret),
    );
    configuration[oidc.customFetch] = (url, init) => boundedFetch(url, init as RequestInit);
    if (provider.issuer.startsWith('http:')) oidc.allowInsecureRequests(configuration);
    return configuration;
  }

  function opened(cookie: string | null): z.infer<typeof attemptSchema> | null {
    try {
      const attempt = attemptSchema.parse(JSON.parse(sealer.open(cookie ?? '', SEALING_CONTEXT)));
      return referenceOf(clock) < attempt.until ? attempt : null;
    } catch {
      return null;
    }
  }

  /** Some providers tell the email at their userinfo endpoint alone. A person without one can sign in all the same. */
  async function withEmail(
    configuration: oidc.Configuration,
    tokens: oidc.TokenEndpointResponse,
    claims: Record<string, unknown> & { sub?: string },
  ): Promise<Record<string, unknown>> {
    const { userinfo_endpoint: endpoint } = configuration.serverMetadata();
    if (claims.email !== undefined || endpoint === undefined || claims.sub === undefined) return claims;
    try {
      const { email, email_verified } = await oidc.fetchUserInfo(configuration, tokens.access_token, claims.sub);
      return { ...claims, email, email_verified };
    } catch (error) {
      log.warn({ reason: `${error}` }, 'the identity provider did not tell an email');
      return claims;
    }
  }

  return {
    async begin(returnTo) {
      const configuration = await client();
      const until = referenceOf(clock) + LIFE_MS;
      const attempt = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        verifier: oidc.randomPKCECodeVerifier(),
        returnTo,
        until,
      };
      const url = oidc.buildAuthorizationUrl(configuration, {
        redirect_uri: settings.redirectUri(),
        scope: SCOPE,
        state: attempt.state,
        nonce: attempt.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(attempt.verifier),
        code_challenge_method: 'S256',
      });
      return { url: url.href, cookie: sealer.seal(JSON.stringify(attempt), SEALING_CONTEXT), until };
    },

    async finish(query, cookie) {
      const attempt = opened(cookie);
      if (attempt === null) {
        return refuse('FORBIDDEN', 'This sign-in was not begun in this browser, or too long ago: begin it again.');
      }
      const configuration = await client();
      let tokens: Awaited<ReturnType<typeof oidc.authorizationCodeGrant>>;
      try {
        tokens = await oidc.authorizationCodeGrant(configuration, new URL(`${settings.redirectUri()}?${query}`), {
          pkceCodeVerifier: attempt.verifier,
          expectedState: attempt.state,
          expectedNonce: attempt.nonce,
          idTokenExpected: true,
        });
      } catch (error) {
        return refused(error, log);
      }
      const idToken = tokens.id_token ?? '';
      const claims = await provider.verify(idToken, settings.client.id);
      if (claims === null) return refuse('FORBIDDEN', 'The identity provider’s token is not valid.');
      const proof = proofOf(await withEmail(configuration, tokens, claims), idToken, settings.platformClaim);
      if (proof === null) return refuse('FORBIDDEN', 'The identity provider’s token names nobody.');
      return done({ proof, returnTo: attempt.returnTo });
    },
  };
}

function authentication(methods: readonly string[] | undefined, secret: string | null): oidc.ClientAuth {
  if (secret === null) return oidc.None();
  // What is not said means `client_secret_basic` (OpenID Connect Discovery §3).
  const basic = methods === undefined || methods.includes('client_secret_basic');
  return basic ? oidc.ClientSecretBasic(secret) : oidc.ClientSecretPost(secret);
}

function refused(error: unknown, log: Log): Outcome<never> {
  if (error instanceof oidc.AuthorizationResponseError) {
    const denied = error.error === 'access_denied';
    return refuse('FORBIDDEN', denied ? 'The sign-in was cancelled.' : 'The identity provider refused the sign-in.');
  }
  // Not the error itself: it carries what was asked and answered.
  log.warn({ reason: `${error}` }, 'a sign-in at the identity provider failed');
  if (isAway(error)) throw new ProviderUnavailable('token endpoint');
  return refuse('FORBIDDEN', 'The identity provider’s answer is not valid for this sign-in: begin it again.');
}

/** `fetch` says no more than that: a TypeError for a connection, a TimeoutError for its end. */
function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    error.name === 'TimeoutError' ||
    (error instanceof TypeError && error.message === 'fetch failed') ||
    isAway(error.cause)
  );
}
