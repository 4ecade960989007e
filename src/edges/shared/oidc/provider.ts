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
import { isTokenType, LEEWAY_S } from '../../../services/tokens.ts';
import { type CachedDocument, makeCachedDocument } from './cached-document.ts';
import { fetchJson } from './fetch-json.ts';

/** Contract §3. Nothing symmetric: whoever verifies with such a key could sign with it. */
const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'];
/** Keys without an identifier that are tried on one token. */
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

/** The external identity provider: what it publishes, read when first needed and kept. */
export interface Provider {
  issuer: string;
  /** Its discovery document. Throws `ProviderAway`. */
  metadata(): Promise<Metadata>;
  /** What a token says that the provider signed for this audience; null for any other. Throws `ProviderAway`. */
  verify(token: string, audience: string): Promise<JWTPayload | null>;
}

export function makeProvider(
  settings: { issuer: string; jwksUri: string | null },
  around: { clock: Clock; log: Log },
): Provider {
  const { issuer } = settings;
  const { clock } = around;
  const metadata = makeCachedDocument('discovery', () => discover(issuer), around);
  const keys = makeCachedDocument(
    'keys',
    async () => keySet(settings.jwksUri ?? requireSecureUri((await metadata.get()).jwks_uri, issuer)),
    around,
  );

  return {
    issuer,
    metadata: () => metadata.get(),
    async verify(token, audience) {
      if (!isPlausible(token)) return null;
      const options: JWTVerifyOptions = {
        algorithms: ALGORITHMS,
        issuer,
        audience,
        requiredClaims: ['exp', 'sub'],
        clockTolerance: LEEWAY_S,
        currentDate: new Date(referenceOf(clock)),
      };
      return verifyWith(keys, token, options);
    },
  };
}

/** So that nothing is fetched for what cannot be good. */
function isPlausible(token: string): boolean {
  try {
    const { alg, typ } = decodeProtectedHeader(token);
    return ALGORITHMS.includes(alg ?? '') && isTokenType(typ);
  } catch {
    return false;
  }
}

async function verifyWith(
  keys: CachedDocument<LocalJWKSet>,
  token: string,
  options: JWTVerifyOptions,
): Promise<JWTPayload | null> {
  const tried = await attempt(await keys.get(), token, options);
  if (tried !== 'unknown key') return tried;
  // The provider may have a new key since.
  const again = (await keys.refresh()) ? await attempt(await keys.get(), token, options) : null;
  return again === 'unknown key' ? null : again;
}

async function attempt(
  keys: LocalJWKSet,
  token: string,
  options: JWTVerifyOptions,
): Promise<JWTPayload | 'unknown key' | null> {
  try {
    return (await jwtVerify(token, keys, options)).payload;
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return 'unknown key';
    return error instanceof errors.JWKSMultipleMatchingKeys ? attemptEach(error, token, options) : null;
  }
}

/** A token that does not say which of several keys signed it. */
async function attemptEach(
  candidates: errors.JWKSMultipleMatchingKeys,
  token: string,
  options: JWTVerifyOptions,
): Promise<JWTPayload | null> {
  let tried = 0;
  for await (const key of candidates) {
    if (++tried > MAX_CANDIDATES) break;
    const payload = await jwtVerify(token, key, options).then(
      (verified) => verified.payload,
      () => null,
    );
    if (payload !== null) return payload;
  }
  return null;
}

async function discover(issuer: string): Promise<Metadata> {
  const found = metadataSchema.parse(await fetchJson(`${issuer.replace(/\/+$/, '')}/.well-known/openid-configuration`));
  if (found.issuer !== issuer) throw new Error(`it says that it is ${found.issuer}, and OIDC_ISSUER is ${issuer}`);
  return found;
}

/** Where an issuer says that its keys are; an operator who says it in a setting knows the way there. */
export function requireSecureUri(uri: string, issuer: string): string {
  const { protocol } = new URL(uri);
  if (protocol === 'https:' || (protocol === 'http:' && issuer.startsWith('http:'))) return uri;
  throw new Error('the keys of an issuer with https are read by https alone');
}

async function keySet(uri: string): Promise<LocalJWKSet> {
  return createLocalJWKSet((await fetchJson(uri)) as unknown as JSONWebKeySet);
}
