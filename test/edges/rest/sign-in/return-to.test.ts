import { describe, expect, it } from 'vitest';
import { parseReturnPath } from '../../../../src/edges/rest/sign-in/return-to.ts';
import { fc } from '../../../support/properties.ts';

describe('the return address of a sign-in', () => {
  it.each(['/', '/docs', '/v1/auth/cli?code=a&challenge=b', '/console/#/devices', '/a//b'])('can be %s', (path) => {
    expect(parseReturnPath(path)).toBe(path);
  });

  it.each([
    ...['', 'docs', 'https://evil.example', '//evil.example', '///evil.example', '/\\evil.example', '\\/evil.example'],
    ...['/..//evil.example', '/.//evil.example', '/%2e%2e//evil.example', '/\t/evil.example', '/\n/evil.example'],
    ...['javascript:alert(1)', '/x\r\nSet-Cookie: a=b', '/ä', '/ x', ' /x', `/${'x'.repeat(3_000)}`],
  ])('cannot be %j', (path) => {
    expect(parseReturnPath(path)).toBeNull();
  });

  it('is never another host, for any input', () => {
    const piece = fc.constantFrom(
      '/',
      '\\',
      '.',
      '..',
      '%2f',
      '%5c',
      '@',
      ':',
      '?',
      '#',
      'evil.example',
      'a',
      '\t',
      ';',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const path = parseReturnPath(`/${pieces.join('')}`);
        if (path === null) return;
        expect(new URL(path, 'https://twinkeep.example').host).toBe('twinkeep.example');
      }),
      { numRuns: 5_000 },
    );
  });
});
