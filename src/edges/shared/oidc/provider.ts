import {
  createLocalJWKSet,
  decodeProtectedHeader,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyOptions,
  jwtVerify,
  type LocalJWKSet,
} from 'jose';
import { z } from 'zod';
import { type Clock, referenceOf } from '../../../domain/clock.ts';
import type { Log } from '../../../domain/log.ts';
import { isLoopbackHost } from '../../../domain/loopback-host.ts';
import { expiredPayload, isTokenType, LEEWAY_S } from '../../../services/tokens.ts';
import { type CachedDocument, makeCachedDocument } from './cached-document.ts';
import { fetchJson } from './fetch-json.ts';

/** Contract §3. No symmetric algorithms: a key that verifies could also sign. */
const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'];
/** Keys that are tried for one token without a key id. */
const MAX_CANDIDATES = 8;

const metadataSchema = z.looseObject({
  issuer: z.string(),
  jwks_uri: z.string(),
  authorization_endpoint: z.string().optional(),
  token_endpoint: z.string().optional(),
  userinfo_endpoint: z.string().optional(),
  token_endpoint_auth_methods_supported: z.array(z.string()).optional(),
});
export type Metadata = z.infer<typeof metadataSchema>;

/** The external identity provider: its discovery document and keys, loaded on first use and cached. */
export interface Provider {
  issuer: string;
  /** The discovery document. Throws `ProviderUnavailable`. */
  metadata(): Promise<Metadata>;
  /**
   * The claims of a token that the provider signed for this audience; null for any other, after `expired` was called if its
   * signature is valid and it has expired. Throws `ProviderUnavailable`.
   */
  verify(token: string, audience: string, expired?: OnExpired): Promise<JWTPayload | null>;
  /** The same for a logout token, whose type is another one and which needs no subject. */
  verifyLogout(token: string, audience: string): Promise<JWTPayload | null>;
}

export function makeProvider(
  settings: { issuer: string; jwksUri: string | null },
  parts: { clock: Clock; log: Log },
): Provider {
  const { issuer } = settings;
  const { clock } = parts;
  const metadata = makeCachedDocument('discovery', () => discover(issuer), parts);
  const keys = makeCachedDocument(
    'keys',
    async () => keySet(settings.jwksUri ?? requireSecureUri((await metadata.get()).jwks_uri, issuer)),
    parts,
  );

  function verify(
    token: string,
    { audience, requiredClaims }: { audience: string; requiredClaims: string[] },
    expired: OnExpired = () => {},
  ): Promise<JWTPayload | null> {
    const options: JWTVerifyOptions = {
      algorithms: ALGORITHMS,
      issuer,
      audience,
      requiredClaims,
      clockTolerance: LEEWAY_S,
      currentDate: new Date(referenceOf(clock)),
    };
    return verifyWith(keys, { token, options, expired });
  }

  return {
    issuer,
    metadata: () => metadata.get(),
    verify: async (token, audience, expired) =>
      isPlausible(token, isTokenType) ? verify(token, { audience, requiredClaims: ['exp', 'sub'] }, expired) : null,
    verifyLogout: async (token, audience) =>
      isPlausible(token, isLogoutTokenType)
        ? verify(token, { audience, requiredClaims: ['exp', 'iat', 'jti', 'events'] })
        : null,
  };
}

/** `typ` is recommended to be `logout+jwt` (OpenID Connect Back-Channel Logout 1.0 §2.4); providers also send `JWT` or none. */
const isLogoutTokenType = (typ: unknown): boolean =>
  typ === undefined || (typeof typ === 'string' && /^(application\/)?(logout\+jwt|jwt)$/i.test(typ));

/** Rejects tokens that cannot be valid before anything is fetched for them. */
function isPlausible(token: string, isType: (typ: unknown) => boolean): boolean {
  try {
    const { alg, typ } = decodeProtectedHeader(token);
    return ALGORITHMS.includes(alg ?? '') && isType(typ);
  } catch {
    return false;
  }
}

type OnExpired = (payload: JWTPayload) => void;

interface Verification {
  token: string;
  options: JWTVerifyOptions;
  expired: OnExpired;
}

async function verifyWith(keys: CachedDocument<LocalJWKSet>, verification: Verification): Promise<JWTPayload | null> {
  const result = await attempt(await keys.get(), verification);
  if (result !== 'unknown key') return result;
  // The provider may have published a new key.
  const retried = (await keys.refresh()) ? await attempt(await keys.get(), verification) : null;
  return retried === 'unknown key' ? null : retried;
}

async function attempt(keys: LocalJWKSet, verification: Verification): Promise<JWTPayload | 'unknown key' | null> {
  const { token, options } = verification;
  try {
    return (await jwtVerify(token, keys, options)).payload;
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return 'unknown key';
    return error instanceof errors.JWKSMultipleMatchingKeys
      ? attemptEach(error, verification)
      : refusedBy(error, verification);
  }
}

/** Verifies a token without a key id against each of several keys. */
async function attemptEach(
  candidates: errors.JWKSMultipleMatchingKeys,
  verification: Verification,
): Promise<JWTPayload | null> {
  const { token, options } = verification;
  let count = 0;
  for await (const key of candidates) {
    if (++count > MAX_CANDIDATES) break;
    const payload = await jwtVerify(token, key, options).then(
      (verified) => verified.payload,
      (error) => refusedBy(error, verification),
    );
    if (payload !== null) return payload;
  }
  return null;
}

function refusedBy(error: unknown, { expired }: Verification): null {
  const payload = expiredPayload(error);
  if (payload !== null) expired(payload);
  return null;
}

async function discover(issuer: string): Promise<Metadata> {
  const found = metadataSchema.parse(await fetchJson(`${issuer.replace(/\/+$/, '')}/.well-known/openid-configuration`));
  if (found.issuer !== issuer)
    throw new Error(`the discovery document's issuer is ${found.issuer}, but OIDC_ISSUER is ${issuer}`);
  return found;
}

/**
 * Returns the `jwks_uri` of a discovery document if it uses https, or, like the issuer, http on a loopback address. Throws otherwise: an attacker that can change the keys can sign in as anyone. `OIDC_ISSUER` and
 * `OIDC_JWKS_URI` are checked when the settings are read.
 */
export function requireSecureUri(uri: string, issuer: string): string {
  const { protocol, hostname } = new URL(uri);
  const isLocal = issuer.startsWith('http:') && isLoopbackHost(hostname);
  if (protocol === 'https:' || (protocol === 'http:' && isLocal)) return uri;
  throw new Error('jwks_uri must start with https://, except for a loopback address if the issuer is one too');
}

async function keySet(uri: string): Promise<LocalJWKSet> {
  return createLocalJWKSet((await fetchJson(uri)) as unknown as JSONWebKeySet);
}
