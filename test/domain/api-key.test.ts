import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { apiKeyPrefix, hashApiKey, isApiKey, KEY_PREFIX, matchesHash, newApiKey } from '../../src/domain/api-key.ts';
import { withChecksum } from '../support/api-keys.ts';

describe('a new API key', () => {
  it('has a prefix, 32 random bytes, a checksum, and a hash over all of it', () => {
    const { key, prefix, hash } = newApiKey();
    expect(key).toMatch(/^twk_[a-z2-7]{8}_[0-9A-Za-z]{49}$/);
    expect(prefix).toMatch(KEY_PREFIX);
    expect([apiKeyPrefix(key), isApiKey(key), hashApiKey(key)]).toEqual([prefix, true, hash]);
    expect(key).toBe(withChecksum(key.slice(0, -6)));
    expect(matchesHash(key, hash)).toBe(true);
  });

  it('is found in a text by the documented pattern', () => {
    const pattern = /`(\\btwk_.*?)`/.exec(readFileSync('docs/authentication.md', 'utf8'))?.[1] ?? '';
    for (let n = 0; n < 100; n++) {
      const { key } = newApiKey();
      for (const text of [
        `TOKEN=${key}`,
        `"${key}",`,
        `Bearer ${key}\n`,
        `https://x/ws/state?token=${key}&events=state`,
      ])
        expect(new RegExp(pattern).exec(text)?.[0]).toBe(key);
    }
    expect(new RegExp(pattern).test('twk_abcdefgh_0123456789')).toBe(false);
  });

  it('has every digit at every position of its secret but the first', () => {
    const secrets = Array.from({ length: 4_000 }, () => newApiKey().key.slice(13, -6));
    for (let position = 1; position < 43; position++)
      expect(new Set(secrets.map((secret) => secret[position])).size).toBe(62);
  });

  it('differs each time', () => {
    const keys = Array.from({ length: 1_000 }, newApiKey);
    for (const part of ['prefix', 'key', 'hash'] as const)
      expect(new Set(keys.map((key) => key[part])).size).toBe(1_000);
  });
});

it('a key with a wrong digit, or with two exchanged, has a wrong checksum', () => {
  const { key } = newApiKey();
  for (let at = 4; at < key.length; at++) {
    if (key[at] === '_') continue;
    const other = `${key.slice(0, at)}${key[at] === 'a' ? 'b' : 'a'}${key.slice(at + 1)}`;
    expect(apiKeyPrefix(other)).toBeNull();
    if (at + 1 === key.length || key[at + 1] === '_' || key[at] === key[at + 1]) continue;
    expect(apiKeyPrefix(`${key.slice(0, at)}${key[at + 1]}${key[at]}${key.slice(at + 2)}`)).toBeNull();
  }
});

it('a key of the earlier form is looked up by its prefix', () => {
  expect([apiKeyPrefix(`tk_abcDEF12_${'x'.repeat(43)}`), isApiKey('tk_')]).toEqual(['abcDEF12', true]);
});

it.each([
  '',
  'twk_',
  withChecksum(`twk_abcdefgh_${'x'.repeat(42)}`),
  withChecksum(`twk_abcdefgh_${'x'.repeat(44)}`),
  withChecksum(`twk_abcdefg1_${'x'.repeat(43)}`),
  withChecksum(`twk_abcdefgh_${'x'.repeat(42)}_`),
  withChecksum(`TWK_abcdefgh_${'x'.repeat(43)}`),
  withChecksum(` twk_abcdefgh_${'x'.repeat(43)}`),
  `${withChecksum(`twk_abcdefgh_${'x'.repeat(43)}`)}\n`,
  `twk_abcdefgh_${'x'.repeat(43)}000000`,
  `twk_abcdefgh_${'x'.repeat(43)}`,
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
