import { describe, expect, it } from 'vitest';
import { CANONICAL_UUID, isCanonicalUuid, isUuid } from '../../src/domain/uuid.ts';
import { fc } from '../support/properties.ts';

describe('a UUID', () => {
  it('is canonical in lower case, and a UUID in any', () => {
    fc.assert(
      fc.property(fc.uuid(), (id) => {
        expect([isCanonicalUuid(id), isUuid(id), isUuid(id.toUpperCase())]).toEqual([true, true, true]);
        expect(isCanonicalUuid(id.toUpperCase())).toBe(!/[a-f]/.test(id));
        expect(new RegExp(`^device:${CANONICAL_UUID}$`).test(`device:${id}`)).toBe(true);
      }),
    );
  });

  it.each([
    '',
    '0195d9a2-7f00-7000-8000-00000000000',
    '0195d9a2-7f00-7000-8000-0000000000001',
    '0195d9a2-7f00-7000-8000-000000000001\n',
    '0195d9a27f0070008000000000000001',
    '{0195d9a2-7f00-7000-8000-000000000001}',
    '0195d9a2-7f00-7000-8000-00000000000g',
  ])('is not %j', (text) => {
    expect([isCanonicalUuid(text), isUuid(text)]).toEqual([false, false]);
  });
});
