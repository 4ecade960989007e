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

/** What an operation needs: never a wildcard. */
export type NeededScope = `${ScopeVerb}:${ScopeResource}`;
/** What a key holds. */
export type Scope = `${ScopeVerb | '*'}:${ScopeResource | '*'}`;

const verbs: readonly string[] = [...scopeVerbs, '*'];
const resources: readonly string[] = [...scopeResources, '*'];

const pick = (texts: readonly string[]): string => texts.map((text) => text.replace('*', '\\*')).join('|');

export function isScope(text: string): text is Scope {
  const [verb = '', resource = '', ...rest] = text.split(':');
  return rest.length === 0 && verbs.includes(verb) && resources.includes(resource);
}

/** The same, for a schema. */
export const scopePattern = new RegExp(`^(${pick(verbs)}):(${pick(resources)})$`);

/** The scopes of a new key, each once. An unknown one is refused (contract §3). */
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
 * The scopes of a token's `scope` claim (RFC 8693 §4.2: separated by blanks). Null without the claim: all that the role
 * allows. A claim that names no known scope grants nothing: whoever asked for it wanted less than everything.
 */
export const scopesOfClaim = (claim: string | undefined): readonly Scope[] | null =>
  claim === undefined ? null : claim.split(' ').filter(isScope);

/** The scopes of an API key, which are stored as an empty list where it has all that its role allows. */
export const scopesOfKey = (stored: readonly Scope[]): readonly Scope[] | null => (stored.length === 0 ? null : stored);

/** Whether `granted` covers `needed`. Null is all that the role allows, an empty list is nothing. */
export const allowsScope = (granted: readonly Scope[] | null, needed: NeededScope): boolean =>
  granted === null || granted.some((mine) => covers(mine, needed));

/** Whether the holder of `held` may hand out `asked`: each scope is covered by one of theirs. Null is all scopes. */
export function mayGrant(held: readonly Scope[] | null, asked: readonly Scope[] | null): boolean {
  if (held === null) return true;
  return asked?.every((one) => held.some((mine) => covers(mine, one))) ?? false;
}

function covers(mine: Scope, one: Scope): boolean {
  const [verb, resource] = mine.split(':');
  const [askedVerb, askedResource] = one.split(':');
  return (verb === '*' || verb === askedVerb) && (resource === '*' || resource === askedResource);
}
