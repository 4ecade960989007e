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

/** Whether `granted` covers `needed`. No scopes, null or an empty list, means all that the role allows. */
export function allows(granted: readonly Scope[] | null, needed: NeededScope): boolean {
  if (granted === null || granted.length === 0) return true;
  return granted.some((mine) => covers(mine, needed));
}

/**
 * Whether who holds `held` may hand out `asked`: each one as it stands is covered by one of theirs. No scopes are all of
 * them, on either side.
 */
export function within(held: readonly Scope[] | null, asked: readonly Scope[]): boolean {
  if (held === null || held.length === 0) return true;
  return asked.length > 0 && asked.every((one) => held.some((mine) => covers(mine, one)));
}

function covers(mine: Scope, one: Scope): boolean {
  const [verb, resource] = mine.split(':');
  const [askedVerb, askedResource] = one.split(':');
  return (verb === '*' || verb === askedVerb) && (resource === '*' || resource === askedResource);
}
