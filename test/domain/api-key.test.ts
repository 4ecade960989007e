import { describe, expect, it } from 'vitest';
import { apiKeyPrefix, hashApiKey, isApiKey, KEY_PREFIX, matchesHash, newApiKey } from '../../src/domain/api-key.ts';

describe('a new API key', () => {
  it('has a prefix, 32 random bytes, and a hash over both', () => {
    const { key, prefix, hash } = newApiKey();
    expect(key).toMatch(/^tk_[a-z2-7]{8}_[A-Za-z0-9_-]{43}$/);
    expect(prefix).toMatch(KEY_PREFIX);
    expect([apiKeyPrefix(key), isApiKey(key), hashApiKey(key)]).toEqual([prefix, true, hash]);
    expect(Buffer.from(key.slice(12), 'base64url')).toHaveLength(32);
    expect(matchesHash(key, hash)).toBe(true);
  });

  it('differs each time', () => {
    const keys = Array.from({ length: 1_000 }, newApiKey);
    for (const part of ['prefix', 'key', 'hash'] as const)
      expect(new Set(keys.map((key) => key[part])).size).toBe(1_000);
  });
});

it.each([
  '',
  'tk_',
  'tk_abcdefgh',
  'tk_abcdefgh_',
  `tk_abcdefg_${'x'.repeat(43)}`,
  `tk_abcdefgh_${'x'.repeat(42)}`,
  `tk_abcdefgh_${'x'.repeat(44)}`,
  `tk_abcd-fgh_${'x'.repeat(43)}`,
  `TK_abcdefgh_${'x'.repeat(43)}`,
  `tk_abcdefgh_${'x'.repeat(42)}=`,
  ` tk_abcdefgh_${'x'.repeat(43)}`,
  `tk_abcdefgh_${'x'.repeat(43)}\n`,
])('%j is not an API key', (text) => {
  expect(apiKeyPrefix(text)).toBeNull();
});

it('only the key itself matches its hash', () => {
  const [{ key, hash }, other] = [newApiKey(), newApiKey()];
  expect([
    matchesHash(other.key, hash),
    matchesHash(hash, hash),
    matchesHash('', hash),
    matchesHash(key, ''),
    matchesHash('', ''),
  ]).toEqual([...[false, false, false, false, false]]);
});
