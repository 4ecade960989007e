import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import * as fields from '../../src/domain/request-fields.ts';
import { uuid } from '../../src/domain/uuid-schema.ts';

const takes = (schema: z.ZodType, value: unknown) => schema.safeParse(value).success;

describe('fields', () => {
  it.each<[string, z.ZodType, unknown[], unknown[]]>([
    [
      'description',
      fields.description,
      ['', 'two\nlines\tand more', 'x'.repeat(1_000)],
      ['\u0007', 'x'.repeat(1_001), null],
    ],
    ['reason', fields.reason, ['lost'], ['', ' ', 'x'.repeat(501), 'a\u001bb']],
    ['deviceType', fields.deviceType, ['smart_light', 'ESP32-S3 board'], ['', ' ', 'a\nb', 'x'.repeat(65), 5]],
    [
      'actionName',
      fields.actionName,
      ['turn_on', 'x', 'a.b:c-d', 'x'.repeat(64)],
      ['', '1a', 'a b', 'a\n', 'x'.repeat(65), 'ü'],
    ],
    ['actionAsked', fields.requestedActionName, ['turn_on', 'no such action!'], ['', 'x'.repeat(129), '\u0007']],
    ['ttlSeconds', fields.ttlSeconds, [1, 86_400], [0, 86_401, 1.5, '60', null]],
    ['timeoutSeconds', fields.timeoutSeconds, [1, 3_600], [0, 3_601, 1.5, '60', null]],
    ['jsonObject', fields.jsonObject, [{}, { a: [1] }], [[], null, 'x', 1, undefined]],
    [
      'metadata',
      fields.metadata,
      [{}, { a: 'x'.repeat(4_096 - 8) }],
      [[], { a: 'x'.repeat(4_096 - 7) }, { a: 'é'.repeat(2_045) }],
    ],
  ])('%s', (_name, schema, good, bad) => {
    for (const value of good) expect(takes(schema, value), JSON.stringify(value)).toBe(true);
    for (const value of bad) expect(takes(schema, value), JSON.stringify(value)).toBe(false);
  });

  it('are normalized: reasons trimmed', () => {
    expect(fields.reason.parse('  lost ')).toBe('lost');
  });

  it('keep an own property named __proto__, for the rules to check', () => {
    const params = JSON.parse('{"__proto__":1,"a":2}');
    expect(fields.jsonObject.parse(params)).toBe(params);
  });

  it('can all be described as JSON Schema', () => {
    const { readFields, MAX_METADATA_BYTES, ...schemas } = fields;
    const document = z.toJSONSchema(z.strictObject(schemas as unknown as Record<string, z.ZodType>), { io: 'input' });
    expect(document.properties?.metadata).toEqual({ type: 'object' });
  });
});

describe('reading a request', () => {
  const schema = z.strictObject({ name: fields.reason, place: z.strictObject({ id: uuid }).optional() });

  it('returns the value', () => {
    expect(fields.readFields(schema, { name: ' x ' })).toEqual({ ok: true, value: { name: 'x' } });
  });

  it('reports all faults by field, including unknown fields', () => {
    const outcome = fields.readFields(schema, { place: { id: 'x', extra: 1 }, other: 2, more: 3 });
    expect(!outcome.ok && outcome.refusal.code).toBe('VALIDATION_FAILED');
    expect(!outcome.ok && outcome.refusal.errors?.map(({ path }) => path)).toEqual([
      'name',
      'place.id',
      'place.extra',
      'other',
      'more',
    ]);
  });

  it('reports the whole document if it is not an object', () => {
    const outcome = fields.readFields(schema, 'x');
    expect(!outcome.ok && outcome.refusal.errors?.map(({ path }) => path)).toEqual(['']);
  });

  it('reports at most 50 errors', () => {
    const many = Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`f${i}`, 1]));
    const outcome = fields.readFields(schema, many);
    expect(!outcome.ok && outcome.refusal.errors?.length).toBe(50);
  });
});
