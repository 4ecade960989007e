import { hash } from 'node:crypto';
import { decodeJwt, type JWTPayload } from 'jose';
import { type Clock, referenceOf } from '../../../domain/clock.ts';
import { scopesOfClaim } from '../../../domain/scopes.ts';
import { digestOf, isStorableClaim, LEEWAY_S, type TokenRef } from '../../../services/tokens.ts';
import type { Proof, Verifier } from '../identity.ts';
import type { Provider } from './provider.ts';

/** A token is verified again after this while: a key that its provider withdrew is good no longer then. */
const REMEMBERED_MS = 900_000;

/** The last moment that a date can name. */
const MAX_TIME = 8_640_000_000_000_000;

export interface PlatformClaim {
  name: string;
  value: string;
}

export interface ExternalTokenSettings {
  audience: string;
  platformClaim: PlatformClaim | null;
}

/** Tokens of the external identity provider. */
export function externalTokenVerifier(provider: Provider, settings: ExternalTokenSettings, clock: Clock): Verifier {
  return {
    recognises: (credential) => issuerOf(credential) === provider.issuer,
    async verify(credential) {
      const payload = await provider.verify(credential, settings.audience);
      const proof = payload === null ? null : proofOf(payload, credential, settings.platformClaim);
      return proof === null ? null : { ...proof, until: Math.min(proof.until, referenceOf(clock) + REMEMBERED_MS) };
    },
  };
}

/** What a verified token of an external issuer proves; null where a claim is of no use. */
export function proofOf(payload: JWTPayload, token: string, claim: PlatformClaim | null): ProofOfSubject | null {
  const { iss = '', sub, exp = 0, iat, jti, email, email_verified, cnf } = payload;
  const scope = scopeClaim(payload);
  // Bound to a key of its holder (RFC 7800): who accepts it from any bearer takes that away.
  if (cnf !== undefined) return null;
  if (
    !isStorableClaim(sub) ||
    (jti !== undefined && !isStorableClaim(jti)) ||
    (scope !== undefined && typeof scope !== 'string')
  )
    return null;
  const verified = email_verified === true && isStorableClaim(email);
  const expiresAt = Math.min(Math.floor(exp * 1000), MAX_TIME);
  return {
    subject: { iss, sub, email: verified ? email : null, emailVerified: verified },
    scopes: scopesOfClaim(scope),
    // Never by its scope, which a client may ask for: only by what the provider says about the person.
    platformAdmin: claim !== null && matches(payload[claim.name], claim.value),
    person: true,
    token: {
      // Another issuer's identifiers are not ours.
      id: `external:${hash('sha256', `${iss}\n${jti ?? digestOf(token)}`, 'base64url')}`,
      expiresAt,
      // Its provider vouched for the person then; `auth_time` may be of a session there that is days old and is still good.
      ...(iat !== undefined && { signedInAt: iat * 1000 }),
    },
    until: expiresAt + LEEWAY_S * 1000,
  };
}

export type ProofOfSubject = Proof & {
  subject: { iss: string; sub: string; email: string | null; emailVerified: boolean };
  token: TokenRef;
};

/**
 * The scopes as one text. RFC 8693 §4.2 calls the claim `scope`; Microsoft Entra and Okta write `scp` in its place, as a text or
 * as a list. What is neither is returned as it is, and refused.
 */
function scopeClaim({ scope, scp }: JWTPayload): unknown {
  if (scope !== undefined) return scope;
  return Array.isArray(scp) && scp.every((one) => typeof one === 'string') ? scp.join(' ') : scp;
}

const matches = (claimed: unknown, value: string): boolean =>
  claimed === value || (Array.isArray(claimed) && claimed.includes(value));

function issuerOf(credential: string): string | undefined {
  try {
    return decodeJwt(credential).iss;
  } catch {
    return undefined;
  }
}
