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

export function isScope(text: string): text is Scope {
  const [verb = '', resource = '', ...rest] = text.split(':');
  return rest.length === 0 && verbs.includes(verb) && resources.includes(resource);
}

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
  const [verb, resource] = needed.split(':') as [ScopeVerb, ScopeResource];
  return granted.some((scope) => {
    const [grantedVerb, grantedResource] = scope.split(':');
    return (grantedVerb === '*' || grantedVerb === verb) && (grantedResource === '*' || grantedResource === resource);
  });
}
