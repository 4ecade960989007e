import * as oidc from 'openid-client';
import { z } from 'zod';
import { type Clock, referenceOf } from '../../../domain/clock.ts';
import type { Log } from '../../../domain/log.ts';
import { done, type Outcome, refuse } from '../../../domain/refusals.ts';
import type { SealedPlace, Sealer } from '../../../domain/sealing.ts';
import type { EpochMs } from '../../../domain/values.ts';
import { ProviderUnavailable } from '../../../operations/faults.ts';
import { LEEWAY_S } from '../../../services/tokens.ts';
import { type PlatformClaim, type ProofOfSubject, proofOf } from './external-tokens.ts';
import { boundedFetch } from './fetch-json.ts';
import type { Provider } from './provider.ts';

/** Time limit for the sign-in at the provider. */
const ATTEMPT_TTL_MS = 600_000;
const SEALING_CONTEXT: SealedPlace = { purpose: 'provider sign-ins', aad: 'sign-in at the identity provider' };
const SCOPE = 'openid email';

const attemptSchema = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  returnTo: z.string(),
  until: z.number(),
});

export interface BrowserSignInSettings {
  client: { id: string; secret: string | null };
  platformClaim: PlatformClaim | null;
  /** The redirect URI; known once the service listens. */
  redirectUri(): string;
}

interface BrowserSignInParts {
  sealer: Sealer;
  clock: Clock;
  log: Log;
}

type Claims = Record<string, unknown> & { sub?: string };

/** Sign-in at the identity provider: authorization code with PKCE (contract §3). */
export class BrowserSignIn {
  readonly #provider: Provider;
  readonly #settings: BrowserSignInSettings;
  readonly #sealer: Sealer;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(provider: Provider, settings: BrowserSignInSettings, { sealer, clock, log }: BrowserSignInParts) {
    this.#provider = provider;
    this.#settings = settings;
    this.#sealer = sealer;
    this.#clock = clock;
    this.#log = log;
  }

  /** The authorization URL, and the sealed cookie with the attempt's state. Throws `ProviderUnavailable`. */
  async begin(returnTo: string): Promise<{ url: string; cookie: string; until: EpochMs }> {
    const configuration = await this.#client();
    const until = referenceOf(this.#clock) + ATTEMPT_TTL_MS;
    const attempt = {
      state: oidc.randomState(),
      nonce: oidc.randomNonce(),
      verifier: oidc.randomPKCECodeVerifier(),
      returnTo,
      until,
    };
    const url = oidc.buildAuthorizationUrl(configuration, {
      redirect_uri: this.#settings.redirectUri(),
      scope: SCOPE,
      state: attempt.state,
      nonce: attempt.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(attempt.verifier),
      code_challenge_method: 'S256',
    });
    return { url: url.href, cookie: this.#sealer.seal(JSON.stringify(attempt), SEALING_CONTEXT), until };
  }

  /** `query` is that of the provider's redirect. Throws `ProviderUnavailable`. */
  async finish(query: string, cookie: string | null): Promise<Outcome<{ proof: ProofOfSubject; returnTo: string }>> {
    const attempt = this.#openAttempt(cookie);
    if (attempt === null) {
      return refuse('FORBIDDEN', 'This sign-in was started in another browser or has expired. Sign in again.');
    }
    const configuration = await this.#client();
    let tokens: Awaited<ReturnType<typeof oidc.authorizationCodeGrant>>;
    try {
      tokens = await oidc.authorizationCodeGrant(configuration, new URL(`${this.#settings.redirectUri()}?${query}`), {
        pkceCodeVerifier: attempt.verifier,
        expectedState: attempt.state,
        expectedNonce: attempt.nonce,
        idTokenExpected: true,
      });
    } catch (error) {
      return refused(error, this.#log);
    }
    const idToken = tokens.id_token ?? '';
    const claims = await this.#provider.verify(idToken, this.#settings.client.id);
    if (claims === null) return refuse('FORBIDDEN', 'The identity provider’s token is not valid.');
    const withEmail = await this.#withEmail(configuration, tokens, claims);
    const proof = proofOf(withEmail, idToken, this.#settings.platformClaim, referenceOf(this.#clock));
    if (proof === null || !proof.person) {
      return refuse('FORBIDDEN', 'The identity provider’s token does not identify a user.');
    }
    // The nonce shows that the token was issued after the attempt began, by a clock that may be behind this one.
    const signedInAt = Math.max(proof.token.signedInAt ?? 0, attempt.until - ATTEMPT_TTL_MS);
    return done({ proof: { ...proof, token: { ...proof.token, signedInAt } }, returnTo: attempt.returnTo });
  }

  async #client(): Promise<oidc.Configuration> {
    const { issuer } = this.#provider;
    const metadata = await this.#provider.metadata();
    if (metadata.authorization_endpoint === undefined || metadata.token_endpoint === undefined) {
      this.#log.warn(
        { issuer },
        'identity provider has no authorization or token endpoint; browser sign-in unavailable',
      );
      throw new ProviderUnavailable('no authorization or token endpoint');
    }
    const { id, secret } = this.#settings.client;
    const configuration = new oidc.Configuration(
      metadata as oidc.ServerMetadata,
      id,
      {
        // The library uses the host's clock: the skew makes it the service's time.
        [oidc.clockSkew]: (referenceOf(this.#clock) - Date.now()) / 1000,
        [oidc.clockTolerance]: LEEWAY_S,
      },
      authentication(metadata.token_endpoint_auth_methods_supported, secret),
    );
    configuration[oidc.customFetch] = (url, init) => boundedFetch(url, init as RequestInit);
    if (issuer.startsWith('http:')) oidc.allowInsecureRequests(configuration);
    return configuration;
  }

  #openAttempt(cookie: string | null): z.infer<typeof attemptSchema> | null {
    try {
      const attempt = attemptSchema.parse(JSON.parse(this.#sealer.open(cookie ?? '', SEALING_CONTEXT)));
      return referenceOf(this.#clock) < attempt.until ? attempt : null;
    } catch {
      return null;
    }
  }

  /** Some providers return the email address at the userinfo endpoint only. Sign-in succeeds without one as well. */
  async #withEmail(
    configuration: oidc.Configuration,
    tokens: oidc.TokenEndpointResponse,
    claims: Claims,
  ): Promise<Record<string, unknown>> {
    const { userinfo_endpoint: endpoint } = configuration.serverMetadata();
    if (claims.email !== undefined || endpoint === undefined || claims.sub === undefined) return claims;
    try {
      const { email, email_verified } = await oidc.fetchUserInfo(configuration, tokens.access_token, claims.sub);
      return { ...claims, email, email_verified };
    } catch (error) {
      this.#log.warn({ reason: `${error}` }, 'identity provider userinfo request failed; continuing without email');
      return claims;
    }
  }
}

function authentication(methods: readonly string[] | undefined, secret: string | null): oidc.ClientAuth {
  if (secret === null) return oidc.None();
  // The default is `client_secret_basic` (OpenID Connect Discovery §3).
  const basic = methods === undefined || methods.includes('client_secret_basic');
  return basic ? oidc.ClientSecretBasic(secret) : oidc.ClientSecretPost(secret);
}

function refused(error: unknown, log: Log): Outcome<never> {
  if (error instanceof oidc.AuthorizationResponseError) {
    const denied = error.error === 'access_denied';
    return refuse('FORBIDDEN', denied ? 'The sign-in was cancelled.' : 'The identity provider refused the sign-in.');
  }
  // Not the error object: it contains the request and the response.
  log.warn({ reason: `${error}` }, 'identity provider sign-in failed');
  if (isUnavailable(error)) throw new ProviderUnavailable('token endpoint');
  return refuse('FORBIDDEN', 'The identity provider’s response is not valid for this sign-in. Sign in again.');
}

/**
 * Whether the provider was unreachable: `fetch` throws a TypeError for a failed connection, a TimeoutError for a
 * timeout.
 */
function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    error.name === 'TimeoutError' ||
    (error instanceof TypeError && error.message === 'fetch failed') ||
    isUnavailable(error.cause)
  );
}
