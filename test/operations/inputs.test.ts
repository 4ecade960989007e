import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { slugFrom } from '../../src/domain/slug.ts';
import { displayName, paging, slug, timezone } from '../../src/operations/inputs.ts';
import { fc } from '../support/properties.ts';

const { limit, cursor } = paging;
const takes = (schema: z.ZodType, value: unknown) => schema.safeParse(value).success;

describe('members of inputs', () => {
  it.each<[string, z.ZodType, unknown[], unknown[]]>([
    ['slug', slug, ['a', 'living-room-2', 'x'.repeat(64)], ['', 'A', 'ü', 'a b', 'a\n', 'x'.repeat(65), 1]],
    [
      'displayName',
      displayName,
      ['a', ' Küche 🏠', 'x'.repeat(100)],
      ['', '   ', 'a\u0007b', 'a\nb', 'x'.repeat(101), 1],
    ],
    ['timezone', timezone, ['Europe/Berlin', 'UTC'], ['', 'Europe', '+01:00', 'x'.repeat(100), null]],
    ['limit', limit, [1, 200, undefined], [0, 201, 1.5, '50', 'x', '', null]],
    ['cursor', cursor, ['abc', 'x'.repeat(512), undefined], ['', 'x'.repeat(513), 1]],
  ])('%s', (_name, schema, good, bad) => {
    for (const value of good) expect(takes(schema, value), JSON.stringify(value)).toBe(true);
    for (const value of bad) expect(takes(schema, value), JSON.stringify(value)).toBe(false);
  });

  it('have 200 entries per page by default, and names as they were sent', () => {
    expect(limit.parse(undefined)).toBe(200);
    expect(displayName.parse('  Hall ')).toBe('  Hall ');
  });

  it('are described as JSON Schema, in which a member with a default is not required', () => {
    const document = z.toJSONSchema(z.strictObject({ name: displayName, timezone, ...paging }), { io: 'input' });
    expect(Object.keys(document.properties ?? {})).toEqual(['name', 'timezone', 'limit', 'cursor']);
    expect(document.required).toEqual(['name', 'timezone']);
  });
});

describe('a slug in a path', () => {
  it('can be every slug that is made from a name', () => {
    const suffixes = fc.option(fc.oneof(fc.nat(), fc.stringMatching(/^[0-9a-f]{8}$/)), { nil: undefined });
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 120 }), suffixes, (name, suffix) => {
        expect(takes(slug, slugFrom(name, suffix)), name).toBe(true);
      }),
    );
  });

  it.each(['Кухня', '客厅', '!!!', '🏠', 'very long '.repeat(20)])('can be the slug of %j', (name) => {
    expect(takes(slug, slugFrom(name)), name).toBe(true);
  });
});
