import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { errorText, fieldErrors } from '../../src/domain/field-errors.ts';
import { uuid } from '../../src/domain/uuid-schema.ts';

const messages = (schema: z.ZodType, input: unknown): string[] => {
  const read = schema.safeParse(input, { error: errorText });
  return read.success ? [] : fieldErrors(read.error.issues).map(({ path, message }) => `${path}: ${message}`.trim());
};

describe('the text of a validation error', () => {
  it.each<[string, z.ZodType, unknown, string]>([
    ['a missing field', z.object({ a: z.string() }), {}, 'a: is required'],
    ['a missing field with a list of values', z.object({ a: z.enum(['x']) }), {}, 'a: is required'],
    ['another type', z.string(), 1, ': must be a string'],
    ['a fraction', z.int(), 1.5, ': must be an integer'],
    ['an array in place of an object', z.strictObject({}), [], ': must be an object'],
    ['an empty string', z.string().min(1), '', ': must not be empty'],
    ['a short string', z.string().min(3), 'x', ': must be at least 3 characters'],
    ['a long string', z.string().max(2), 'xyz', ': must be at most 2 characters'],
    ['a long array', z.array(z.int()).max(1), [1, 2], ': must be at most 1 item'],
    ['a string of another length', z.string().length(2), 'x', ': must have exactly 2 characters'],
    ['a small number', z.number().min(1), 0, ': must be at least 1'],
    ['a number at an excluded limit', z.number().lt(1), 1, ': must be less than 1'],
    ['a format', uuid, 'x', ': must be a UUID'],
    ['a pattern without a text of its own', z.string().regex(/^a$/), 'x', ': has the wrong format'],
    ['a value outside a list', z.enum(['a', 'b']), 'c', ': must be one of "a", "b"'],
    ['another literal', z.literal(1), 2, ': must be 1'],
    ['a number outside the multiples', z.number().multipleOf(5), 3, ': must be a multiple of 5'],
    ['a value outside a union', z.union([z.string(), z.int()]), true, ': has none of the permitted forms'],
    ['a key of a record', z.record(z.string().max(1), z.int()), { cc: 1 }, 'cc: contains a key that is not permitted'],
  ])('describes %s', (_what, schema, input, expected) => {
    expect(messages(schema, input)).toEqual([expected]);
  });

  it('keeps the text of a schema', () => {
    expect(messages(z.string().regex(/^a$/, 'is not an a'), 'x')).toEqual([': is not an a']);
  });

  it('names each unknown field, and reports one error for each field', () => {
    const schema = z.strictObject({ a: z.string().min(5).regex(/^x/) });
    expect(messages(schema, { a: '', b: 1, c: 2 })).toEqual([
      'a: must be at least 5 characters',
      'b: unknown field',
      'c: unknown field',
    ]);
  });
});
