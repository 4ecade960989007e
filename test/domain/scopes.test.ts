import { describe, expect, it } from 'vitest';
import {
  allowsScope,
  isScope,
  keyScopePattern,
  mayGrant,
  type NeededScope,
  readScopes,
  type Scope,
  scopeResources,
  scopesOfClaim,
  scopesOfKey,
  scopeVerbs,
  storedScopesOf,
} from '../../src/domain/scopes.ts';
import { fc } from '../support/properties.ts';

const needed = fc
  .tuple(fc.constantFrom(...scopeVerbs), fc.constantFrom(...scopeResources))
  .map(([verb, resource]): NeededScope => `${verb}:${resource}`);
const scope = fc
  .tuple(fc.constantFrom(...scopeVerbs, '*' as const), fc.constantFrom(...scopeResources, '*' as const))
  .map(([verb, resource]): Scope => `${verb}:${resource}`);

describe('scopes', () => {
  it('include themselves, and wildcards include all scopes', () => {
    fc.assert(
      fc.property(needed, (need) => {
        const [verb, resource] = need.split(':') as [string, string];
        for (const granted of [need, `*:${resource}`, `${verb}:*`, '*:*']) {
          expect(allowsScope([granted as Scope], need)).toBe(true);
        }
      }),
    );
  });

  it('include only what they name', () => {
    expect(allowsScope(['read:devices'], 'write:devices')).toBe(false);
    expect(allowsScope(['read:devices'], 'read:homes')).toBe(false);
    expect(allowsScope(['*:devices'], 'read:homes')).toBe(false);
    expect(allowsScope(['read:*'], 'execute:commands')).toBe(false);
    expect(allowsScope(['read:devices', 'execute:commands'], 'execute:commands')).toBe(true);
  });

  it('never shrink when one is added', () => {
    fc.assert(
      fc.property(fc.array(scope, { minLength: 1 }), scope, needed, (granted, more, need) => {
        expect(allowsScope([...granted, more], need)).toBe(allowsScope(granted, need) || allowsScope([more], need));
      }),
    );
  });

  it('default to all scopes of the role if none are named, and to none if the list is empty', () => {
    expect(allowsScope(null, 'write:tenant')).toBe(true);
    fc.assert(fc.property(needed, (need) => !allowsScope([], need)));
  });

  it('of a claim are its known scopes; without the claim the list is absent', () => {
    expect(scopesOfClaim(undefined)).toBeNull();
    expect(scopesOfClaim('openid read:devices  write:*')).toEqual(['read:devices', 'write:*']);
    for (const claim of ['', ' ', 'openid profile', 'READ:DEVICES', 'read:device', 'read:devices,write:homes']) {
      expect(scopesOfClaim(claim), claim).toEqual([]);
    }
  });

  it('of a claim are read without the prefix of the provider', () => {
    expect(scopesOfClaim('a:read:devices read:homes a:openid', 'a:')).toEqual(['read:devices']);
    expect(scopesOfClaim('read:devices', 'a:')).toEqual([]);
    expect(scopesOfClaim(undefined, 'a:')).toBeNull();
  });

  it('of a key are all scopes if none are stored', () => {
    expect(scopesOfKey([])).toBeNull();
    expect(scopesOfKey(['read:devices'])).toEqual(['read:devices']);
    for (const scopes of [null, ['read:devices']] as const) expect(scopesOfKey(storedScopesOf(scopes))).toEqual(scopes);
  });

  it('are known by verb and resource, and stored once', () => {
    expect(readScopes(['read:devices', '*:*', 'read:devices'])).toEqual({ ok: true, value: ['read:devices', '*:*'] });
  });

  it('of a new key are named, or `all` alone', () => {
    expect(readScopes(['all'])).toEqual({ ok: true, value: null });
    for (const scopes of [[], ['all', 'read:devices'], ['*:*', 'all']]) {
      const outcome = readScopes(scopes);
      expect(!outcome.ok && outcome.refusal).toMatchObject({ code: 'VALIDATION_FAILED', errors: [{ path: 'scopes' }] });
    }
  });

  it('that are unknown are refused, each by its position', () => {
    const unknown = ['', 'read', 'read:', ':devices', 'READ:devices', 'read:keys', 'read:devices:x', 'platform:admin'];
    expect(unknown.some(isScope)).toBe(false);
    const outcome = readScopes(['read:homes', 'delete:homes', 'x']);
    expect(!outcome.ok && outcome.refusal).toMatchObject({
      code: 'VALIDATION_FAILED',
      errors: [{ path: 'scopes.1' }, { path: 'scopes.2' }],
    });
  });
});

describe('granting scopes', () => {
  it.each<[Scope[] | null, Scope[] | null, boolean]>([
    [null, null, true],
    [null, ['*:*'], true],
    [[], ['read:devices'], false],
    [[], null, false],
    [['*:*'], null, false],
    [['*:*'], ['*:*'], true],
    [['*:*'], ['read:devices', 'write:*'], true],
    [['read:*'], ['read:devices', 'read:*'], true],
    [['read:*'], ['write:devices'], false],
    [['read:*'], ['*:devices'], false],
    [['*:devices'], ['read:devices', '*:devices'], true],
    [['read:devices', 'write:devices', 'execute:devices'], ['*:devices'], false],
    [['read:devices'], ['read:devices', 'read:homes'], false],
    [['read:devices'], null, false],
  ])('with %j, of %j is %j', (held, requested, allowed) => {
    expect(mayGrant(held, requested)).toBe(allowed);
  });

  it('never exceeds the scopes of the grantor', () => {
    const scope = fc.constantFrom(
      ...(['*', ...scopeVerbs] as const).flatMap((verb) =>
        (['*', ...scopeResources] as const).map((resource): Scope => `${verb}:${resource}`),
      ),
    );
    const needed = fc.constantFrom(
      ...scopeVerbs.flatMap((verb) => scopeResources.map((resource): NeededScope => `${verb}:${resource}`)),
    );
    const list = fc.option(fc.array(scope, { maxLength: 5 }));
    fc.assert(
      fc.property(list, list, needed, (held, requested, one) => {
        fc.pre(mayGrant(held, requested) && allowsScope(requested, one));
        expect(allowsScope(held, one)).toBe(true);
      }),
    );
  });

  it('accepts the same scopes as the pattern of the schema, which also accepts `all`', () => {
    expect(keyScopePattern.test('all')).toBe(true);
    for (const text of ['read:devices', '*:*', 'write:*', '*:tenant'])
      expect([keyScopePattern.test(text), isScope(text)]).toEqual([true, true]);
    for (const text of [
      'read',
      'read:',
      'read:x',
      'xread:devices',
      'read:devicesx',
      'read:devices\n',
      'platform:admin',
      'read:devices:*',
      'All',
      'all ',
    ]) {
      expect([text, keyScopePattern.test(text), isScope(text)]).toEqual([text, false, false]);
    }
  });
});
