import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { isUuid } from '../../src/domain/uuid.ts';
import { uuid } from '../../src/domain/uuid-schema.ts';

describe('an id in a request', () => {
  it.each([
    '01920000-0000-7000-8000-000000000001',
    '11111111-1111-1111-1111-111111111111',
    '00000000-0000-0000-0000-000000000001',
    '00000000-0000-0000-0000-000000000000',
    'ffffffff-ffff-ffff-ffff-ffffffffffff',
  ])('is accepted in any version: %s', (id) => {
    expect([uuid.parse(id), isUuid(id)]).toEqual([id, true]);
  });

  it('is converted to lower case', () => {
    expect(uuid.parse('ABCDEF00-0000-7000-8000-00000000000F')).toBe('abcdef00-0000-7000-8000-00000000000f');
  });

  it.each(['', 'x', '01920000000070008000000000000001', '{01920000-0000-7000-8000-000000000001}', 1, null])(
    'is not %j',
    (value) => {
      expect(uuid.safeParse(value).success).toBe(false);
    },
  );

  it('is described by its format', () => {
    expect(z.toJSONSchema(uuid)).toMatchObject({ type: 'string', format: 'uuid' });
  });
});
