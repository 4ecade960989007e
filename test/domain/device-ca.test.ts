import { describe, expect, it } from 'vitest';
import { matchesPattern } from '../../src/domain/device-ca.ts';

describe('a pattern of common names', () => {
  it.each([
    ['lamp-1', 'lamp-1', true],
    ['lamp-1', 'lamp-12', false],
    ['*', '', true],
    ['lamp-*', 'lamp-', true],
    ['lamp-*', 'lamp-1', true],
    ['lamp-*', 'lamp', false],
    ['*-lamp', 'a-lamp', true],
    ['a*a', 'a', false],
    ['a*b*c', 'a-b-c', true],
    ['a*b*c', 'a-c-b', false],
    ['a*bc*c', 'abc', false],
    ['a.c', 'abc', false],
    ['**', 'anything', true],
    ['LAMP-*', 'lamp-1', false],
  ])('%s and %s: %s', (pattern, text, expected) => {
    expect(matchesPattern(pattern, text)).toBe(expected);
  });

  it('takes linear time for a text that almost matches', () => {
    expect(matchesPattern(`${'*a'.repeat(40)}*b`, 'a'.repeat(64))).toBe(false);
  });
});
