import { hash } from 'node:crypto';
import { decodeJwt, type JWTPayload } from 'jose';
import { type Clock, referenceOf } from '../../../domain/clock.ts';
import { type Scope, scopesOfClaim } from '../../../domain/scopes.ts';
import type { EpochMs } from '../../../domain/values.ts';
import {
  digestOf,
  isAhead,
  isStorableClaim,
  LEEWAY_S,
  PLATFORM_SCOPE,
  signInTime,
  type TokenRef,
} from '../../../services/tokens.ts';
import type { Proof, Verifier } from '../authenticator.ts';
import { isLogoutToken, MAX_TIME, providerSessionId } from './logout-tokens.ts';
import type { Provider } from './provider.ts';

/** Interval after which a token is verified again, so that a key withdrawn by the provider stops being accepted. */
const REVERIFY_MS = 900_000;

export interface PlatformClaim {
  name: string;
  value: string;
}

/** How the `scope` claim of the provider's access tokens is read. */
export interface ScopeClaimSettings {
  /** Whether a token without the claim grants nothing; otherwise it grants everything that the role allows. */
  required: boolean;
  /** Before each scope of this service, such as `twinkeep:`; empty for providers without. */
  prefix: string;
}

export interface ExternalTokenSettings {
  audience: string;
  platformClaim: PlatformClaim | null;
  scopeClaim: ScopeClaimSettings;
  /** The client with which the service itself signs browsers in; never an agent's. */
  client?: { id: string } | null;
}

/** Verifies tokens of the external identity provider. */
export function externalTokenVerifier(provider: Provider, settings: ExternalTokenSettings, clock: Clock): Verifier {
  return {
    recognises: (credential) => issuerOf(credential) === provider.issuer,
    async verify(credential, refused) {
      const payload = await provider.verify(credential, settings.audience, ({ iss = '', sub }) => {
        if (isStorableClaim(sub)) refused?.({ subject: { iss, sub } });
      });
      const now = referenceOf(clock);
      const proof = payload === null ? null : proofOf(payload, credential, settings.platformClaim, now);
      const granted = payload === null ? null : grantsOf(payload, settings.scopeClaim);
      if (proof === null || granted === null) return null;
      const clients = clientsOf(payload ?? {}, settings.client?.id);
      const ancestors = [...(proof.token.ancestors ?? []), ...clients];
      return {
        ...proof,
        ...(clients.length > 0 && { clients, token: { ...proof.token, ancestors } }),
        scopes: granted.scopes,
        // Only together with the claim about the person: any client can request a scope.
        platformAdmin: proof.platformAdmin && granted.platform,
        until: Math.min(proof.until, now + REVERIFY_MS),
      };
    },
  };
}

/**
 * Ids of the clients that got the token, other than `own`, unique across issuers. RFC 9068 §2.2 calls the claim
 * `client_id`, OpenID Connect Core §2 `azp`, Okta `cid`, and Microsoft Entra `azp` or `appid`.
 */
function clientsOf({ iss, azp, client_id, cid, appid }: JWTPayload, own: string | undefined): string[] {
  const named = [azp, client_id, cid, appid].filter((client) => typeof client === 'string' && client !== own);
  return [...new Set(named)].map((client) => `client:${hash('sha256', `${iss}\n${client}`, 'base64url')}`);
}

/**
 * What the scope claim of an access token grants at most; null if it is not readable. `platform:admin` has to be in the
 * claim by its name: `*:*` means the scopes of tenants.
 */
function grantsOf(
  payload: JWTPayload,
  { required, prefix }: ScopeClaimSettings,
): { scopes: readonly Scope[] | null; platform: boolean } | null {
  const found = scopeClaim(payload);
  if (found === undefined && !required) return { scopes: null, platform: true };
  const claim = found === undefined ? '' : found;
  if (typeof claim !== 'string') return null;
  return { scopes: scopesOfClaim(claim, prefix), platform: claim.split(' ').includes(`${prefix}${PLATFORM_SCOPE}`) };
}

/**
 * The proof in a verified token of an external issuer; null if a claim cannot be used. It has no scopes: those of an
 * access token are read by its verifier, and an ID token has none, whatever its claims are.
 */
export function proofOf(
  payload: JWTPayload,
  token: string,
  platformClaim: PlatformClaim | null,
  now: EpochMs,
): ProofOfSubject | null {
  const { iss = '', sub, exp = 0, iat, jti, sid, email, email_verified, cnf } = payload;
  // Bound to a key of its holder (RFC 7800): accepting it as a bearer token would void that protection.
  if (cnf !== undefined || isLogoutToken(payload) || isAhead(iat, now)) return null;
  if (!isStorableClaim(sub) || (jti !== undefined && !isStorableClaim(jti))) return null;
  const verified = email_verified === true && isStorableClaim(email);
  const signedInAt = signInTime(iat, now);
  const expiresAt = Math.min(Math.floor(exp * 1000), MAX_TIME);
  return {
    subject: { iss, sub, email: verified ? email : null, emailVerified: verified },
    scopes: null,
    platformAdmin: platformClaim !== null && matches(payload[platformClaim.name], platformClaim.value),
    person: !isOfClient(payload),
    token: {
      // Prefixed and hashed with the issuer: token ids are unique per issuer only.
      id: `external:${hash('sha256', `${iss}\n${jti ?? digestOf(token)}`, 'base64url')}`,
      expiresAt,
      // `iat` is when the provider confirmed the person. `auth_time` may be that of a provider session days old.
      ...(signedInAt !== undefined && { signedInAt }),
      // Ends with the session at the provider (OpenID Connect Back-Channel Logout 1.0 §2.1).
      ...(isStorableClaim(sid) && { ancestors: [providerSessionId(iss, sid)] }),
    },
    until: expiresAt + LEEWAY_S * 1000,
  };
}

/**
 * Whether the provider issued the token to a program for itself (client credentials, RFC 6749 §4.4), by the signs of
 * Auth0 (`gty`, `sub` ends in `@clients`), Microsoft Entra (`idtyp`; or `oid` is `sub`, which differ for a user), Okta
 * and RFC 9068 §2.2 (`sub` is the client) and Keycloak (the name of the client's service account).
 */
function isOfClient({ gty, idtyp, oid, sub, client_id, azp, cid, preferred_username }: JWTPayload): boolean {
  const clients = [client_id, azp, cid].filter((client) => typeof client === 'string');
  return (
    [gty].flat().some((grant) => grant === 'client-credentials' || grant === 'client_credentials') ||
    idtyp === 'app' ||
    (typeof oid === 'string' && oid === sub) ||
    sub?.endsWith('@clients') === true ||
    clients.some((client) => client === sub || preferred_username === `service-account-${client}`)
  );
}

export type ProofOfSubject = Proof & {
  subject: { iss: string; sub: string; email: string | null; emailVerified: boolean };
  token: TokenRef;
};

/**
 * The scopes as one string. RFC 8693 §4.2 calls the claim `scope`; Microsoft Entra and Okta use `scp`, a string or a
 * list. Any other type is returned unchanged, and refused by the caller.
 */
function scopeClaim({ scope, scp }: JWTPayload): unknown {
  if (scope !== undefined) return scope;
  return Array.isArray(scp) && scp.every((item) => typeof item === 'string') ? scp.join(' ') : scp;
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
