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

/** `isScope` as a pattern, for schemas. */
export const scopePattern = new RegExp(`^(${pick(verbs)}):(${pick(resources)})$`);

/** The scopes of a new key, without duplicates. An unknown scope is refused (contract §3). */
export function readScopes(texts: readonly string[]): Outcome<Scope[]> {
  const known = new Set<Scope>();
  const errors: FieldError[] = [];
  texts.forEach((text, index) => {
    if (isScope(text)) known.add(text);
    else errors.push({ path: `scopes.${index}`, message: 'is not a known scope' });
  });
  return errors.length === 0 ? done([...known]) : refuse('VALIDATION_FAILED', 'A scope is unknown.', { errors });
}

/**
 * The scopes of a token's `scope` claim (RFC 8693 §4.2: separated by spaces). Null without the claim: everything that
 * the role allows. A claim without a known scope grants nothing, because it requested less than everything.
 */
export const scopesOfClaim = (claim: string | undefined): readonly Scope[] | null =>
  claim === undefined ? null : claim.split(' ').filter(isScope);

/** The scopes of an API key. A stored empty list means everything that its role allows (null). */
export const scopesOfKey = (stored: readonly Scope[]): readonly Scope[] | null => (stored.length === 0 ? null : stored);

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
