import { done, type FieldError, type Outcome, refuse } from './refusals.ts';

export const scopeVerbs = ['read', 'execute', 'write'] as const;
export type ScopeVerb = (typeof scopeVerbs)[number];

export const scopeResources = [
  'devices',
  'commands',
  'homes',
  'groups',
  'manifests',
  'firmware',
  'plans',
  'memory',
  'intents',
  'actors',
  'audit',
  'history',
  'tenant',
] as const;
export type ScopeResource = (typeof scopeResources)[number];

/** The scope that an operation requires; never a wildcard. */
export type NeededScope = `${ScopeVerb}:${ScopeResource}`;
/** A scope as a key holds it. */
export type Scope = `${ScopeVerb | '*'}:${ScopeResource | '*'}`;

const verbs: readonly string[] = [...scopeVerbs, '*'];
const resources: readonly string[] = [...scopeResources, '*'];

const pick = (texts: readonly string[]): string => texts.map((text) => text.replace('*', '\\*')).join('|');

export function isScope(text: string): text is Scope {
  const [verb = '', resource = '', ...rest] = text.split(':');
  return rest.length === 0 && verbs.includes(verb) && resources.includes(resource);
}

/** In place of scopes, in requests and lists of API keys: everything that the role allows. */
export const ALL_SCOPES = 'all';

/** A scope of an API key, or `all`, as a pattern for schemas. */
export const keyScopePattern = new RegExp(`^(${ALL_SCOPES}|(${pick(verbs)}):(${pick(resources)}))$`);

/** The error text of an unknown scope: names what is accepted. */
export const SCOPE_RULE =
  `must be \`${ALL_SCOPES}\`, or \`<verb>:<resource>\` with a verb of ${verbs.join(', ')} ` +
  `and a resource of ${resources.join(', ')}`;

/**
 * The scopes of a new key, without duplicates; null for `all`. An unknown scope, an empty list, and `all` with other
 * scopes are refused: a key has all permissions of its role only if the request names `all`.
 */
export function readScopes(texts: readonly string[]): Outcome<readonly Scope[] | null> {
  if (texts.length === 0) return invalidScopes([{ path: 'scopes', message: `must name scopes, or \`${ALL_SCOPES}\`` }]);
  if (texts.includes(ALL_SCOPES)) {
    if (texts.every((text) => text === ALL_SCOPES)) return done(null);
    return invalidScopes([{ path: 'scopes', message: `must not name other scopes together with \`${ALL_SCOPES}\`` }]);
  }
  const known = new Set<Scope>();
  const errors: FieldError[] = [];
  texts.forEach((text, index) => {
    if (isScope(text)) known.add(text);
    else errors.push({ path: `scopes.${index}`, message: SCOPE_RULE });
  });
  return errors.length === 0 ? done([...known]) : invalidScopes(errors);
}

const invalidScopes = (errors: FieldError[]): Outcome<never> =>
  refuse('VALIDATION_FAILED', errors.map(({ path, message }) => `${path}: ${message}`).join('; '), { errors });

/**
 * The scopes of a token's `scope` claim (RFC 8693 §4.2: separated by spaces). Null without the claim: everything that
 * the role allows. A claim without a known scope grants nothing, because it requested less than everything. With a
 * `prefix`, only scopes that start with it are read, without it.
 */
export const scopesOfClaim = (claim: string | undefined, prefix = ''): readonly Scope[] | null =>
  claim === undefined
    ? null
    : claim
        .split(' ')
        .filter((text) => text.startsWith(prefix))
        .map((text) => text.slice(prefix.length))
        .filter(isScope);

/** The scopes of an API key. A stored empty list means everything that its role allows (null). */
export const scopesOfKey = (stored: readonly Scope[]): readonly Scope[] | null => (stored.length === 0 ? null : stored);

/** The reverse of `scopesOfKey`. */
export const storedScopesOf = (scopes: readonly Scope[] | null): readonly Scope[] => scopes ?? [];

/** Whether `granted` covers `needed`. Null grants everything that the role allows, an empty list grants nothing. */
export const allowsScope = (granted: readonly Scope[] | null, needed: NeededScope): boolean =>
  granted === null || granted.some((scope) => covers(scope, needed));

/** Whether the holder of `held` may grant `requested`: each scope must be covered by a held one. Null is all scopes. */
export function mayGrant(held: readonly Scope[] | null, requested: readonly Scope[] | null): boolean {
  if (held === null) return true;
  return requested?.every((one) => held.some((mine) => covers(mine, one))) ?? false;
}

function covers(held: Scope, requested: Scope): boolean {
  const [verb, resource] = held.split(':');
  const [requestedVerb, requestedResource] = requested.split(':');
  return (verb === '*' || verb === requestedVerb) && (resource === '*' || resource === requestedResource);
}
