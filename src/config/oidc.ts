import {
  ConfigError,
  type ReadSetting,
  readChoice,
  readPublicUrl,
  readServerUrl,
  refuseClearUrl,
} from './setting-readers.ts';

/** The identity provider (OpenID Connect). */
export interface Oidc {
  issuer: string;
  audience: string;
  /** Null: taken from the issuer's discovery document. */
  jwksUri: string | null;
  client: { id: string; secret: string | null } | null;
  platformClaim: { name: string; value: string } | null;
  /** How the `scope` claim of the provider's access tokens is read. */
  scopeClaim: { required: boolean; prefix: string };
}

const oidcSettings = [
  'OIDC_AUDIENCE',
  'OIDC_JWKS_URI',
  'OIDC_CLIENT_ID',
  'OIDC_PLATFORM_CLAIM',
  'OIDC_SCOPE',
  'OIDC_SCOPE_PREFIX',
] as const;

export function readOidc(read: ReadSetting): Oidc | null {
  // An attacker that can change the answers of the provider can sign in as anyone.
  const issuer = readPublicUrl(read, 'OIDC_ISSUER', ['https', 'http']);
  refuseClearUrl('OIDC_ISSUER', issuer);
  const audience = read('OIDC_AUDIENCE');
  const id = read('OIDC_CLIENT_ID');
  const secret = read('OIDC_CLIENT_SECRET');
  const jwksUri = readServerUrl(read, 'OIDC_JWKS_URI', ['https', 'http']);
  refuseClearUrl('OIDC_JWKS_URI', jwksUri);
  const claim = read('OIDC_PLATFORM_CLAIM');
  if (issuer === null) {
    const alone = oidcSettings.find((name) => read(name) !== null);
    if (alone !== undefined) throw new ConfigError(alone, 'needs OIDC_ISSUER');
  }
  if (secret !== null && id === null) throw new ConfigError('OIDC_CLIENT_SECRET', 'needs OIDC_CLIENT_ID');
  if (issuer === null) return null;
  if (audience === null) throw new ConfigError('OIDC_AUDIENCE', 'is required with OIDC_ISSUER');
  // The claim name may be a URL, so the last colon separates the value.
  const separator = claim?.lastIndexOf(':') ?? -1;
  if (claim !== null && (separator < 1 || separator === claim.length - 1)) {
    throw new ConfigError('OIDC_PLATFORM_CLAIM', 'must be name:value');
  }
  return {
    // Issuers are compared byte by byte, including a trailing slash.
    issuer: read('OIDC_ISSUER') ?? issuer,
    audience,
    jwksUri,
    client: id === null ? null : { id, secret },
    scopeClaim: {
      required: readChoice(read, 'OIDC_SCOPE', ['optional', 'required'], 'optional') === 'required',
      prefix: readScopePrefix(read),
    },
    platformClaim: claim === null ? null : { name: claim.slice(0, separator), value: claim.slice(separator + 1) },
  };
}

/** Only characters of a scope (RFC 6749 §3.3): another one could never match. */
function readScopePrefix(read: ReadSetting): string {
  const prefix = read('OIDC_SCOPE_PREFIX') ?? '';
  if (/^[\x21\x23-\x5b\x5d-\x7e]*$/.test(prefix)) return prefix;
  throw new ConfigError('OIDC_SCOPE_PREFIX', 'must have visible ASCII characters other than " and \\');
}
