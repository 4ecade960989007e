import { describe, expect, it } from 'vitest';
import { isValid, schemaErrors } from '../../src/domain/param-schema.ts';
import { widening } from '../../src/domain/schema-widening.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { expectReached, fc, runs } from '../support/properties.ts';
import { slow } from '../support/slow.ts';

const params = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({ type: 'object', properties, ...more });
const widenings = (before: JsonObject, after: JsonObject) => widening(before, after).reasons;
/** The comparison of two schemas of one parameter. */
const of = (before: JsonObject, after: JsonObject) => widenings(params({ x: before }), params({ x: after }));

describe('a schema is not wider', () => {
  it.each<[string, JsonObject, JsonObject]>([
    ['if it is the same', { type: 'integer', minimum: 0, maximum: 50 }, { type: 'integer', minimum: 0, maximum: 50 }],
    ['with other texts', { type: 'string', title: 'a' }, { type: 'string', description: 'b', default: 'c' }],
    ['with narrower limits', { minimum: 0, maximum: 50 }, { type: 'number', minimum: 1, exclusiveMaximum: 50 }],
    ['with an excluded limit', { exclusiveMinimum: 0 }, { type: 'number', minimum: 0, exclusiveMinimum: 0 }],
    ['as whole numbers', { type: 'number', multipleOf: 0.5 }, { type: 'integer' }],
    ['with a multiple of its step', { multipleOf: 0.1 }, { type: 'number', multipleOf: 0.3 }],
    ['with one of its types', { type: ['string', 'number'], maxLength: 4 }, { type: 'string', maxLength: 4 }],
    ['with listed values that it accepted', { type: 'integer', minimum: 0 }, { enum: [0, 7] }],
    ['with fewer listed values', { enum: ['a', 'b', { c: 1 }] }, { const: { c: 1 } }],
    ['as the values that were listed', { enum: [true, false, null] }, { type: ['boolean', 'null'] }],
    ['as a list value that it refuses itself', { type: 'string' }, { type: 'string', enum: ['a', 7] }],
    ['with shorter texts', { minLength: 1, maxLength: 9 }, { type: 'string', minLength: 2, maxLength: 8 }],
    [
      'with narrower items',
      { items: { type: 'number' }, maxItems: 4 },
      { type: 'array', items: { enum: [1] }, maxItems: 4 },
    ],
    ['with no items', { items: { type: 'number' } }, { type: 'array', maxItems: 0 }],
    [
      'with fewer properties',
      { properties: { a: {}, b: {} } },
      { type: 'object', properties: { a: { type: 'null' } } },
    ],
    [
      'with properties that any schema described',
      { type: 'object' },
      { type: 'object', properties: { a: {} }, required: ['a'] },
    ],
    [
      'with properties of the schema of the others',
      { additionalProperties: { type: 'number' } },
      { type: 'object', properties: { a: { type: 'integer' } } },
    ],
  ])('%s', (_, before, after) => {
    expect([...schemaErrors(params({ x: before })), ...schemaErrors(params({ x: after }))]).toEqual([]);
    expect(of(before, after)).toEqual([]);
  });
});

describe('a schema is wider', () => {
  it.each<[string, JsonObject, JsonObject, string]>([
    ['with a higher limit', { maximum: 50 }, { type: 'number', maximum: 100 }, 'at most 100 (before: at most 50)'],
    ['without a limit', { minimum: 5 }, { type: 'number' }, 'as low as any number (before: at least 5)'],
    ['with the limit itself', { exclusiveMaximum: 5 }, { type: 'number', maximum: 5 }, 'at most 5 (before: below 5)'],
    ['without its step', { multipleOf: 5 }, { type: 'integer' }, 'need not be a multiple of 5'],
    ['with fractions', { type: 'integer' }, { type: 'number' }, 'the type number'],
    ['with any type', { type: 'string' }, {}, 'the type object or array or number or boolean or null'],
    ['with a value that was not listed', { enum: ['a'] }, { enum: ['a', 'b'] }, "may be 'b'"],
    ['without a list', { enum: ['a'] }, { type: 'string' }, 'no longer limited to listed values'],
    ['with longer texts', { maxLength: 4 }, { type: 'string' }, 'more than 4 characters'],
    ['with shorter texts', { minLength: 4 }, { type: 'string', minLength: 3 }, 'fewer than 4 characters'],
    ['with more items', { maxItems: 4 }, { type: 'array', maxItems: 5 }, 'more than 4 items'],
    ['with other items', { items: { type: 'string' } }, { type: 'array' }, "Parameter 'x[]'"],
    ['with a new property', { properties: {} }, { type: 'object', properties: { a: {} } }, "'x.a' is a new parameter"],
    ['with any property', { properties: {} }, { type: 'object' }, 'properties with any name'],
    [
      'with a property that is unlisted now',
      { properties: { a: { const: 1 } }, additionalProperties: true },
      { type: 'object' },
      "'x.a' is no longer limited",
    ],
    [
      'with wider others',
      { additionalProperties: { maxLength: 3 } },
      { type: 'object', additionalProperties: {} },
      "Parameter 'x.*'",
    ],
    [
      'without a required property',
      { properties: { a: {} }, required: ['a'] },
      { type: 'object', properties: { a: {} } },
      "'x.a' is no longer required",
    ],
  ])('%s', (_, before, after, sentence) => {
    expect(of(before, after).join(' ')).toContain(sentence);
  });

  it('with another parameter, which the object of all parameters refuses', () => {
    expect(widenings({}, params({ force: { type: 'boolean' } }))).toEqual(["Parameter 'force' is a new parameter."]);
    expect(widenings({ additionalProperties: true }, params({ force: {} }))).toHaveLength(1);
  });

  it('if it is too large to be compared', () => {
    const many = Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`p${n}`, {}]));
    const nested = { type: 'object', additionalProperties: { type: 'object', properties: many } };
    const before = Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`q${n}`, { properties: many }]));
    expect(widenings(params(before, { additionalProperties: {} }), nested)).toContain(
      'The parameters are too complex to be compared.',
    );
  });

  it('with the number of reasons that are not shown', () => {
    const limits = (maximum: number) =>
      Object.fromEntries(Array.from({ length: 14 }, (_, n) => [`p${n}`, { type: 'integer', maximum }]));
    const reasons = widenings(params(limits(50)), params(limits(60)));
    expect(reasons.slice(9)).toEqual(["Parameter 'p9' may be at most 60 (before: at most 50).", 'And 4 more.']);
    expect(widening(params(limits(50)), params(limits(60)))).toMatchObject({ count: 14, newKinds: false });
  });

  it.each<[string, JsonObject, JsonObject, string]>([
    ['a new parameter', {}, { force: { type: 'boolean' } }, "Parameter 'force' is a new parameter."],
    [
      'a type',
      { force: { type: 'boolean' } },
      { force: { type: ['boolean', 'string'] } },
      "Parameter 'force' may be of the type string, which was refused before.",
    ],
    [
      'a value that was not listed',
      { mode: { enum: ['a'] } },
      { mode: { enum: ['a', 'force'] } },
      "Parameter 'mode' may be 'force', which was refused before.",
    ],
  ])('with %s before any number of higher limits', (_, before, after, sentence) => {
    const limits = (maximum: number) =>
      Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`p${n}`, { type: 'integer', maximum }]));
    const found = widening(params({ ...limits(50), ...before }), params({ ...limits(60), ...after }));
    expect([found.reasons[0], found.reasons.at(-1), found.count]).toEqual([sentence, 'And 21 more.', 31]);
    expect(found.newKinds).toBe(true);
  });

  it('with up to five of the values that were not listed, and the number of the others', () => {
    const found = (...values: string[]) => of({ enum: ['a'] }, { enum: ['a', ...values] });
    expect(found('b', 'c')).toEqual(["Parameter 'x' may be 'b' or 'c', which was refused before."]);
    expect(found(...'bcdefgh')).toEqual([
      "Parameter 'x' may be 'b' or 'c' or 'd' or 'e' or 'f' or 2 other values, which was refused before.",
    ]);
  });

  it('in time that is bounded for many new parameters in many places', () => {
    const closed = { type: 'object', properties: {}, additionalProperties: false };
    const before = Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`q${n}`, closed]));
    const names = Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`p${n}`, {}]));
    const found = widening(params(before), params({}, { additionalProperties: { type: 'object', properties: names } }));
    expect(found.reasons[0]).toBe('The parameters are too complex to be compared.');
    expect(found.count).toBeLessThan(12_000);
  });

  it('in sentences that names cannot rewrite', () => {
    const name = `x' is harmless.\n\u202e${'y'.repeat(200)}`;
    const [sentence = ''] = widenings(params({}), params({ [name]: {} }));
    expect(sentence).toMatch(/^Parameter 'x\? is harmless\.\?\?y+…' is a new parameter\.$/);
    expect(sentence.length).toBeLessThan(100);
  });
});

const bound = fc.integer({ min: -2, max: 3 });
const size = fc.nat(3);
const leaf: fc.Arbitrary<Json> = fc.oneof(
  fc.integer({ min: -3, max: 4 }),
  fc.constantFrom(0.5, 1.5, null, true, false, '', 'a', 'bb', 'ccc'),
);
const { value } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 2, withCrossShrink: true },
    leaf,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('value'), { maxKeys: 3 }),
  ),
}));
/** A schema of one type, usually, so that many values are accepted. */
const keywords = (type: Json, members: Record<string, fc.Arbitrary<Json>>): fc.Arbitrary<JsonObject> =>
  fc
    .record(members, { requiredKeys: [] })
    .map((chosen) => ({ ...(type !== null && { type }), ...chosen }) as JsonObject);
const bounds = { minimum: bound, maximum: bound, exclusiveMinimum: bound, exclusiveMaximum: bound };
const { schema } = fc.letrec<{ schema: JsonObject }>((tie) => {
  const inner = fc.oneof({ maxDepth: 2 }, fc.constant({}), tie('schema'));
  const properties = fc.dictionary(fc.constantFrom('a', 'b'), inner, { maxKeys: 2 });
  const objects = {
    properties,
    required: fc.subarray(['a', 'b']),
    additionalProperties: fc.oneof(fc.boolean(), inner),
  };
  return {
    schema: fc.oneof(
      keywords('number', { ...bounds, multipleOf: fc.constantFrom(0.5, 1, 2) }),
      keywords('integer', { ...bounds, multipleOf: fc.constantFrom(0.5, 1, 2) }),
      keywords('string', { minLength: size, maxLength: size }),
      keywords('array', { minItems: size, maxItems: size, items: inner }),
      keywords('object', objects),
      keywords(null, { ...bounds, maxLength: size, maxItems: size, ...objects }),
      keywords(['string', 'integer'], { ...bounds, maxLength: size }),
      keywords('boolean', {}),
      keywords(null, { enum: fc.array(leaf, { minLength: 1, maxLength: 4 }) }),
      keywords(null, { const: leaf }),
    ),
  };
});
/** A schema, and one with some of its keywords removed or added. */
const related = fc
  .tuple(schema, schema, fc.array(fc.boolean(), { minLength: 16, maxLength: 16 }))
  .map(([one, other, kept]): [JsonObject, JsonObject] => [
    one,
    { ...Object.fromEntries(Object.entries(one).filter((_, n) => kept[n])), ...(kept[15] ? other : {}) },
  ]);

describe('a schema that is not wider', () => {
  it('accepts no value that the earlier one refuses', slow, () => {
    let [narrower, decided] = [0, 0];
    fc.assert(
      fc.property(related, fc.array(value, { minLength: 12, maxLength: 12 }), fc.boolean(), ([a, b], values, swap) => {
        const [before, after] = swap ? [b, a] : [a, b];
        if (widenings(params({ x: before }), params({ x: after })).length > 0) return;
        narrower += 1;
        for (const one of values) {
          if (!isValid(after, one, false)) continue;
          decided += 1;
          expect(isValid(before, one, false)).toBe(true);
        }
      }),
      runs(4_000),
    );
    expectReached(() => {
      expect(narrower).toBeGreaterThan(400);
      expect(decided).toBeGreaterThan(200);
    });
  });

  it('is each schema compared with itself', () => {
    fc.assert(
      fc.property(schema, (one) => {
        expect(widenings(params({ x: one }), params({ x: structuredClone(one) }))).toEqual([]);
      }),
      runs(1_000),
    );
  });
});
