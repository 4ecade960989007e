import { expect, it } from 'vitest';
import { cleanClientName } from '../../src/domain/client-name.ts';

it('is kept without control and formatting characters, up to 200 characters', () => {
  expect(cleanClientName('curl/8.5.0')).toBe('curl/8.5.0');
  expect(cleanClientName('a\u001b[31mb\u202ec\r\nd')).toBe('a[31mbcd');
  expect(cleanClientName('x'.repeat(500))).toBe('x'.repeat(200));
  expect(cleanClientName(`${'x'.repeat(199)}😀`)).toBe('x'.repeat(199));
});

it('is null if there is none', () => {
  for (const given of [null, undefined, '', ' \t\u0000']) expect(cleanClientName(given)).toBeNull();
});
