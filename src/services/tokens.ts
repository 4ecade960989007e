import { hash } from 'node:crypto';
import {
  type CryptoKey,
  calculateJwkThumbprint,
  decodeJwt,
  errors,
  importJWK,
  type JWK,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from 'jose';
import { z } from 'zod';
import { type Clock, referenceOf } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import { type Scope, scopesOfClaim } from '../domain/scopes.ts';
import { isUuid } from '../domain/uuid.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { IdentityStore } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import { untilKnown } from './known-outcome.ts';
import type { StoreLiveness } from './store-liveness.ts';
import { TokenDenylist } from './token-denylist.ts';

/** Issuer and audience of internal tokens (contract §3). */
export const TOKEN_ISSUER = 'urn:twinkeep';
export const TOKEN_AUDIENCE = 'twinkeep';
export const TOKEN_LIFE_S = 3_600;
export const MAX_TOKEN_LIFE_S = 86_400;
export const LEEWAY_S = 30;
/** The scope that makes the bearer a platform operator; not a tenant scope. */
export const PLATFORM_SCOPE = 'platform:admin';

/** The id of the token's user, whatever its `sub`. A private claim, read only from tokens that this service signed. */
const USER_CLAIM = 'user_id';

/** When the person signed in (OpenID Connect Core §2); copied into every token derived from that sign-in. */
const SIGNED_IN_CLAIM = 'auth_time';
/** In the token issued to a command line: the id of the token that approved its sign-in. */
const PARENT_CLAIM = 'parent';
/** With `parent`: the ids of the approving token and of everything that it was derived from. */
const ANCESTORS_CLAIM = 'ancestors';
/** Longest chain of derived credentials: sessions and sign-in links can be derived from each other. */
export const MAX_ANCESTORS = 16;

/** The claims of a token that a cookie session, sign-in link or ticket stores. */
export const tokenRefSchema = z.object({
  /** The identifier that a logout revokes: the `jti`, or a hash of a token without one. */
  id: z.string(),
  expiresAt: z.number(),
  /** When its bearer last authenticated; tokens derived from it keep this time. Absent: unknown. */
  signedInAt: z.number().optional(),
  /** The token that approved the command-line sign-in in which this one was issued; absent for other tokens. */
  parent: z.string().optional(),
  /**
   * Ids of the credentials that it was derived from, nearest first: it ends when one of them is revoked. The last ones are
   * the clients of the identity provider that got the token, which are never revoked, but may be an agent's
   * (`AgentTokens`). Entries that an earlier build wrote have none.
   */
  ancestors: z.array(z.string()).readonly().optional(),
});
export type TokenRef = z.infer<typeof tokenRefSchema>;

/** The ids whose revocation ends the token: its own and those of its ancestors. */
export const chainOf = ({ id, ancestors = [] }: Pick<TokenRef, 'id' | 'ancestors'>): readonly string[] => [
  id,
  ...ancestors,
];

/** Whether `has` is true of the token or of one of its ancestors. A promise only if `has` returns one. */
export function someInChain(
  { id, ancestors }: Pick<TokenRef, 'id' | 'ancestors'>,
  has: (id: string) => boolean | Promise<boolean>,
): boolean | Promise<boolean> {
  const own = has(id);
  if (own === true || ancestors === undefined) return own;
  const pending = typeof own === 'boolean' ? [] : [own];
  for (const ancestor of ancestors) {
    const found = has(ancestor);
    if (found === true) return true;
    if (found !== false) pending.push(found);
  }
  return pending.length > 0 && Promise.all(pending).then((answers) => answers.includes(true));
}

/** A key that verifies internal tokens. */
export interface AcceptedTokenKey {
  kid: string;
  public: CryptoKey;
  /** For `/.well-known/jwks.json`; without the private part. */
  publicJwk: JWK;
}

/** The signing key of internal tokens. */
export interface TokenKey extends AcceptedTokenKey {
  private: CryptoKey;
  /** Other keys whose tokens are valid: the next and the previous one. */
  accepted?: readonly AcceptedTokenKey[];
}

/** Imports a private JWK (Ed25519); throws a readable error for anything else. */
export async function importTokenKey(jwk: JWK): Promise<TokenKey> {
  if (jwk.kty !== 'OKP' || jwk.crv !== 'Ed25519' || jwk.x === undefined || jwk.d === undefined) {
    throw new Error('the token signing key must be a private JWK with kty OKP and crv Ed25519');
  }
  const { kty, crv, x, d } = jwk;
  return {
    ...(await importAcceptedTokenKey(x)),
    private: (await importJWK({ kty, crv, x, d }, 'EdDSA')) as CryptoKey,
  };
}

/** `x` is a public Ed25519 key: 32 raw bytes, base64url. */
export async function importAcceptedTokenKey(x: string): Promise<AcceptedTokenKey> {
  const publicPart = { kty: 'OKP', crv: 'Ed25519', x };
  const kid = await calculateJwkThumbprint(publicPart);
  return {
    kid,
    public: (await importJWK(publicPart, 'EdDSA')) as CryptoKey,
    publicJwk: { ...publicPart, kid, alg: 'EdDSA', use: 'sig' },
  };
}

/** The keys of `key` for `/.well-known/jwks.json`, each once. */
export const publicJwksOf = ({ publicJwk, accepted = [] }: TokenKey): JWK[] => [
  ...new Map([publicJwk, ...accepted.map((other) => other.publicJwk)].map((jwk) => [jwk.kid, jwk])).values(),
];

export interface NewToken {
  sub: string;
  /** The user's id, where `sub` does not identify the row: a user of another issuer. */
  userId?: Uuid;
  email?: string;
  /** Separated by spaces. */
  scope?: string;
  /** Seconds, at most 24 h. */
  ttlS?: number;
  jti: string;
  /** Default: now. */
  signedInAt?: EpochMs;
  parent?: string;
  ancestors?: readonly string[];
}

export function signToken(key: TokenKey, token: NewToken, now: EpochMs): Promise<string> {
  const { sub, userId, email, scope, jti, parent, ancestors, signedInAt = now, ttlS = TOKEN_LIFE_S } = token;
  if (!(ttlS > 0 && ttlS <= MAX_TOKEN_LIFE_S))
    throw new RangeError('ttlS of an internal token must be above 0 and at most 24 hours');
  const issuedAt = Math.floor(now / 1000);
  return new SignJWT({
    ...(userId !== undefined && { [USER_CLAIM]: userId }),
    ...(email !== undefined && { email }),
    ...(scope !== undefined && { scope }),
    ...(parent !== undefined && { [PARENT_CLAIM]: parent }),
    ...(ancestors !== undefined && { [ANCESTORS_CLAIM]: ancestors }),
    [SIGNED_IN_CLAIM]: Math.floor(signedInAt / 1000),
  })
    .setProtectedHeader({ alg: 'EdDSA', typ: 'JWT', kid: key.kid })
    .setIssuer(TOKEN_ISSUER)
    .setAudience(TOKEN_AUDIENCE)
    .setSubject(sub)
    .setJti(jti)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + Math.floor(ttlS))
    .sign(key.private);
}

/** The claims of a verified token. */
export interface TokenClaims {
  iss: string;
  sub: string;
  /** The id of the user, if the token has one. */
  userId: Uuid | null;
  email: string | null;
  emailVerified: boolean;
  /** Null: everything the role allows. Empty: nothing. */
  scopes: readonly Scope[] | null;
  platformAdmin: boolean;
  token: TokenRef;
}

/**
 * Null for anything but a valid internal token; the reason is not revealed to the bearer. Calls `refused` for a token that
 * this service signed and that is not valid now.
 */
export async function verifyToken(
  key: TokenKey,
  token: string,
  now: EpochMs,
  refused?: (claims: Pick<TokenClaims, 'sub' | 'userId'>) => void,
): Promise<TokenClaims | null> {
  let payload: JWTPayload;
  try {
    const verified = await jwtVerify(token, ({ kid }) => verifyingKeyOf(key, kid), {
      algorithms: ['EdDSA'],
      issuer: TOKEN_ISSUER,
      audience: TOKEN_AUDIENCE,
      requiredClaims: ['exp', 'sub'],
      clockTolerance: LEEWAY_S,
      currentDate: new Date(now),
    });
    if (!isTokenType(verified.protectedHeader.typ)) return null;
    payload = verified.payload;
  } catch (error) {
    const { sub, [USER_CLAIM]: userId } = expiredPayload(error) ?? {};
    if (isStorableClaim(sub)) refused?.({ sub, userId: typeof userId === 'string' && isUuid(userId) ? userId : null });
    return null;
  }
  const { exp = 0, iat, sub, jti, email, scope, [USER_CLAIM]: userId = null, [PARENT_CLAIM]: parent } = payload;
  const { [SIGNED_IN_CLAIM]: signedIn = iat, [ANCESTORS_CLAIM]: ancestors = parent && [parent] } = payload;
  const start = iat ?? Math.floor(now / 1000) + LEEWAY_S;
  if (exp - start > MAX_TOKEN_LIFE_S || start * 1000 > now + LEEWAY_S * 1000) return null;
  if (
    !isStorableClaim(sub) ||
    (jti !== undefined && !isStorableClaim(jti)) ||
    (scope !== undefined && typeof scope !== 'string')
  )
    return null;
  if (userId !== null && !(typeof userId === 'string' && isUuid(userId))) return null;
  if ((parent !== undefined && !isStorableClaim(parent)) || (signedIn !== undefined && !Number.isFinite(signedIn)))
    return null;
  if (isAhead(signedIn, now)) return null;
  const signedInAt = signInTime(signedIn, now);
  if (ancestors !== undefined && !isChain(ancestors)) return null;
  const { platformAdmin, ofTenants } = readScope(scope);
  return {
    iss: TOKEN_ISSUER,
    sub,
    userId,
    email: isStorableClaim(email) ? email : null,
    emailVerified: isStorableClaim(email),
    scopes: scopesOfClaim(ofTenants),
    platformAdmin,
    token: {
      id: jti ?? digestOf(token),
      expiresAt: Math.floor(exp * 1000),
      ...(signedInAt !== undefined && { signedInAt }),
      ...(parent !== undefined && { parent }),
      ...(ancestors !== undefined && { ancestors }),
    },
  };
}

/** The claims of a token whose signature is valid and that has expired; null for any other error of `jwtVerify`. */
export const expiredPayload = (error: unknown): JWTPayload | null =>
  error instanceof errors.JWTExpired ? error.payload : null;

/** Whether a time in a token (a NumericDate, RFC 7519 §2) is later than clocks may differ. */
export const isAhead = (claim: unknown, now: EpochMs): boolean =>
  typeof claim === 'number' && claim * 1000 > now + LEEWAY_S * 1000;

/**
 * The sign-in in a token's claim, in whole milliseconds: a NumericDate may have a fraction. At most `now`, because the
 * issuer's clock may be ahead. Undefined if the claim is not a time after 1969.
 */
export const signInTime = (claim: unknown, now: EpochMs): EpochMs | undefined =>
  typeof claim === 'number' && claim >= 0 ? Math.min(Math.floor(claim * 1000), now) : undefined;

const isChain = (claim: unknown): claim is string[] =>
  Array.isArray(claim) && claim.length <= MAX_ANCESTORS && claim.every(isStorableClaim);

/** The key that a token names; the current one for any other name. */
const verifyingKeyOf = (key: TokenKey, kid: string | undefined): CryptoKey =>
  (key.accepted?.find((other) => other.kid === kid) ?? key).public;

/** The operator scope does not affect tenant scopes: a claim with that scope alone restricts nothing else. */
function readScope(claim: string | undefined): { platformAdmin: boolean; ofTenants: string | undefined } {
  const scopes = claim?.split(' ') ?? [];
  const others = scopes.filter((scope) => scope !== PLATFORM_SCOPE);
  const platformAdmin = others.length < scopes.length;
  return { platformAdmin, ofTenants: platformAdmin && others.length === 0 ? undefined : claim };
}

/**
 * Digest of the signed part. The signature is left out: it can be encoded in several ways, which would evade a
 * revocation.
 */
export const digestOf = (token: string): string =>
  `sha256:${hash('sha256', token.slice(0, token.lastIndexOf('.')), 'base64url')}`;

/** Whether a text claims to be an internal token; does not verify it. */
export function isInternalToken(token: string): boolean {
  try {
    return decodeJwt(token).iss === TOKEN_ISSUER;
  } catch {
    return false;
  }
}

export const isTokenType = (typ: unknown): boolean =>
  typ === undefined || (typeof typ === 'string' && /^(application\/)?(jwt|at\+jwt)$/i.test(typ));

/** Whether a claim may be stored: 1–255 characters that every store accepts. */
export const isStorableClaim = (claim: unknown): claim is string =>
  typeof claim === 'string' && claim.length > 0 && claim.length <= 255 && /^\P{C}*$/u.test(claim);

/**
 * Denylist of revoked (logged out) tokens and sessions, in memory and in the store, each until it and everything that
 * was derived from it have certainly expired.
 */
export interface Revocations extends SizeReporter {
  /** From memory, or from the store while the memory may be outdated. Does not include ancestors: see `someInChain`. */
  has(tokenId: string): boolean | Promise<boolean>;
  /** Resolves when the revocation is stored and in force; repeated while its outcome is unknown. */
  add(tokenId: string, expiresAt: EpochMs): Promise<void>;
  /** Calls `listener` after a token was revoked, for connections that depend on it. */
  subscribe(listener: (tokenId: string) => void): () => void;
}

export async function loadRevocations(
  store: Pick<IdentityStore, 'revokeToken' | 'revokedTokens' | 'isTokenRevoked'>,
  clock: Clock,
  invalidations: InvalidationBus = makeLocalInvalidationBus(),
  liveness: Pick<StoreLiveness, 'guard'> = { guard: (work) => work },
): Promise<Revocations> {
  const revoked = new TokenDenylist(clock);
  const listeners = new Set<(tokenId: string) => void>();
  invalidations.subscribe((item) => {
    if (item.about !== 'token') return;
    revoked.add(item.id, item.until);
    for (const listener of listeners) listener(item.id);
  });
  async function read(): Promise<void> {
    // Includes expired tokens: the clock may be ahead. The store prunes old rows.
    for (const { jti, expiresAt } of await store.revokedTokens(0)) revoked.add(jti, expiresAt);
  }
  invalidations.subscribeMissed(read);
  await read();
  return {
    sizes: () => ({ revoked_tokens: revoked.size, revocation_listeners: listeners.size }),
    has: (tokenId) =>
      revoked.has(tokenId) || (!invalidations.isCurrent() && liveness.guard(store.isTokenRevoked(tokenId))),
    async add(tokenId, expiresAt) {
      // A command line that it approved has a token of its own, which may expire later.
      const until = Math.max(expiresAt, referenceOf(clock) + TOKEN_LIFE_S * 1000) + LEEWAY_S * 1000;
      // A revocation that is stored without being in memory would have no effect, and could not be repeated.
      await untilKnown(() => store.revokeToken(tokenId, until));
      invalidations.publish({ about: 'token', id: tokenId, until });
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
