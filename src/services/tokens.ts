import { hash } from 'node:crypto';
import {
  type CryptoKey,
  calculateJwkThumbprint,
  decodeJwt,
  importJWK,
  type JWK,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from 'jose';
import { validate } from 'uuid';
import { z } from 'zod';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import { type Scope, scopesOfClaim } from '../domain/scopes.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { IdentityStore } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import { TokenDenylist } from './token-denylist.ts';

/** Internal tokens (contract §3): who they are issued by and for. */
export const TOKEN_ISSUER = 'urn:twinkeep';
export const TOKEN_AUDIENCE = 'twinkeep';
export const TOKEN_LIFE_S = 3_600;
export const MAX_TOKEN_LIFE_S = 86_400;
export const LEEWAY_S = 30;
/** The scope of a token that makes its bearer a platform operator; no tenant's scope. */
export const PLATFORM_SCOPE = 'platform:admin';

/** The id of the user whom a token stands for, whatever its `sub`; ours alone, and only in what we signed. */
const USER_CLAIM = 'user_id';

/** When the person signed in (OpenID Connect Core §2), which is carried into every token that comes of that sign-in. */
const SIGNED_IN_CLAIM = 'auth_time';
/** The id of the token that approved the sign-in of a command line, in the token that the command line got. */
const PARENT_CLAIM = 'parent';

/** The claims of a token that its cookie session, sign-in link or ticket stores. */
export const tokenRefSchema = z.object({
  /** The identifier that signing out revokes: the `jti`, or a hash of a token without one. */
  id: z.string(),
  expiresAt: z.number(),
  /** When its bearer last proved who they are; nothing else that they present makes that later. Absent: not known. */
  signedInAt: z.number().optional(),
  /** The token that approved the command-line sign-in it came of; absent for a token that came of no other. */
  parent: z.string().optional(),
});
export type TokenRef = z.infer<typeof tokenRefSchema>;

/** The key of internal tokens. */
export interface TokenKey {
  kid: string;
  private: CryptoKey;
  public: CryptoKey;
  /** For `/.well-known/jwks.json`: never holds the private part. */
  publicJwk: JWK;
}

/** From a private JWK (Ed25519); throws one clear sentence where it is none. */
export async function readTokenKey(jwk: JWK): Promise<TokenKey> {
  if (jwk.kty !== 'OKP' || jwk.crv !== 'Ed25519' || jwk.x === undefined || jwk.d === undefined) {
    throw new Error('a token signing key is a private JWK with kty OKP and crv Ed25519');
  }
  const shown = { kty: 'OKP', crv: 'Ed25519', x: jwk.x };
  const kid = await calculateJwkThumbprint(shown);
  return {
    kid,
    private: (await importJWK({ ...shown, d: jwk.d }, 'EdDSA')) as CryptoKey,
    public: (await importJWK(shown, 'EdDSA')) as CryptoKey,
    publicJwk: { ...shown, kid, alg: 'EdDSA', use: 'sig' },
  };
}

export interface NewToken {
  sub: string;
  /** Whose row the token stands for, where `sub` is not what names it: a user of another issuer. */
  userId?: Uuid;
  email?: string;
  /** Separated by blanks. */
  scope?: string;
  /** Seconds, at most 24 h. */
  ttlS?: number;
  jti: string;
  /** Left out: now. */
  signedInAt?: EpochMs;
  parent?: string;
}

export function signToken(key: TokenKey, token: NewToken, now: EpochMs): Promise<string> {
  const { sub, userId, email, scope, jti, parent, signedInAt = now, ttlS = TOKEN_LIFE_S } = token;
  if (!(ttlS > 0 && ttlS <= MAX_TOKEN_LIFE_S)) throw new RangeError('an internal token lives 24 hours at most');
  const issuedAt = Math.floor(now / 1000);
  return new SignJWT({
    ...(userId !== undefined && { [USER_CLAIM]: userId }),
    ...(email !== undefined && { email }),
    ...(scope !== undefined && { scope }),
    ...(parent !== undefined && { [PARENT_CLAIM]: parent }),
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

/** What a verified token says. */
export interface TokenClaims {
  iss: string;
  sub: string;
  /** The user it stands for, where it names one by id. */
  userId: Uuid | null;
  email: string | null;
  emailVerified: boolean;
  /** Null: all that the role allows. Empty: nothing. */
  scopes: readonly Scope[] | null;
  platformAdmin: boolean;
  token: TokenRef;
}

/** Null for anything but a good internal token: why it is none is no business of who presents it. */
export async function verifyToken(key: TokenKey, token: string, now: EpochMs): Promise<TokenClaims | null> {
  let payload: JWTPayload;
  try {
    const verified = await jwtVerify(token, key.public, {
      algorithms: ['EdDSA'],
      issuer: TOKEN_ISSUER,
      audience: TOKEN_AUDIENCE,
      requiredClaims: ['exp', 'sub'],
      clockTolerance: LEEWAY_S,
      currentDate: new Date(now),
    });
    if (!isTokenType(verified.protectedHeader.typ)) return null;
    payload = verified.payload;
  } catch {
    return null;
  }
  const { exp = 0, iat, sub, jti, email, scope, [USER_CLAIM]: userId = null, [PARENT_CLAIM]: parent } = payload;
  const { [SIGNED_IN_CLAIM]: signedIn = iat } = payload;
  const start = iat ?? Math.floor(now / 1000) + LEEWAY_S;
  if (exp - start > MAX_TOKEN_LIFE_S || start * 1000 > now + LEEWAY_S * 1000) return null;
  if (
    !isStorableClaim(sub) ||
    (jti !== undefined && !isStorableClaim(jti)) ||
    (scope !== undefined && typeof scope !== 'string')
  )
    return null;
  if (userId !== null && !(typeof userId === 'string' && validate(userId))) return null;
  if ((parent !== undefined && !isStorableClaim(parent)) || (signedIn !== undefined && !Number.isFinite(signedIn)))
    return null;
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
      expiresAt: exp * 1000,
      ...(signedIn !== undefined && { signedInAt: Number(signedIn) * 1000 }),
      ...(parent !== undefined && { parent }),
    },
  };
}

/** The operators' scope says nothing about tenants: a claim that holds it alone restricts no more than none does. */
function readScope(claim: string | undefined): { platformAdmin: boolean; ofTenants: string | undefined } {
  const words = claim?.split(' ') ?? [];
  const others = words.filter((word) => word !== PLATFORM_SCOPE);
  const platformAdmin = others.length < words.length;
  return { platformAdmin, ofTenants: platformAdmin && others.length === 0 ? undefined : claim };
}

/** Of what is signed: a signature can be written in more than one way, and a logged-out token would be another one. */
export const digestOf = (token: string): string =>
  `sha256:${hash('sha256', token.slice(0, token.lastIndexOf('.')), 'base64url')}`;

/** Whether a text claims to be a token of ours, before anything is verified. */
export function isInternalToken(token: string): boolean {
  try {
    return decodeJwt(token).iss === TOKEN_ISSUER;
  } catch {
    return false;
  }
}

export const isTokenType = (typ: unknown): boolean =>
  typ === undefined || (typeof typ === 'string' && /^(application\/)?(jwt|at\+jwt)$/i.test(typ));

/** A claim that may be stored: 1–255 characters that any store takes. */
export const isStorableClaim = (claim: unknown): claim is string =>
  typeof claim === 'string' && claim.length > 0 && claim.length <= 255 && /^\P{C}*$/u.test(claim);

/** Tokens that were logged out, in memory and in the store, until they have expired for certain. */
export interface Revocations extends SizeReporter {
  has(tokenId: string): boolean;
  add(tokenId: string, expiresAt: EpochMs): Promise<void>;
  /** Called after a token was revoked, for connections that live on it. */
  subscribe(listener: (tokenId: string) => void): () => void;
}

export async function loadRevocations(
  store: IdentityStore,
  clock: Clock,
  news: InvalidationBus = makeLocalInvalidationBus(),
): Promise<Revocations> {
  const revoked = new TokenDenylist(clock);
  const listeners = new Set<(tokenId: string) => void>();
  news.subscribe((item) => {
    if (item.about !== 'token') return;
    revoked.add(item.id, item.until);
    for (const listener of listeners) listener(item.id);
  });
  // Expired ones too: the clock may be ahead, and what is kept past its end is pruned by the store.
  for (const { jti, expiresAt } of await store.revokedTokens(0)) revoked.add(jti, expiresAt);
  return {
    sizes: () => ({ revoked_tokens: revoked.size, revocation_listeners: listeners.size }),
    has: (tokenId) => revoked.has(tokenId),
    async add(tokenId, expiresAt) {
      const until = expiresAt + LEEWAY_S * 1000;
      await store.revokeToken(tokenId, until);
      news.publish({ about: 'token', id: tokenId, until });
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
