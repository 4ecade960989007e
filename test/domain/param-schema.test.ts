import { Ajv } from 'ajv';
import { describe, expect, it } from 'vitest';
import { checkParams, MAX_ENUM_VALUES, MAX_PARAMS_BYTES, schemaErrors } from '../../src/domain/param-schema.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { relativeCost } from '../support/cpu-time.ts';
import { fc, runs } from '../support/properties.ts';

const parse = (text: string) => JSON.parse(text) as JsonObject;
const of = (param: Json): JsonObject => ({ type: 'object', properties: { p: param } });
const accepts = (param: JsonObject, value: Json) => checkParams(of(param), { p: value }).length === 0;
const faults = (schema: Json) => schemaErrors(schema).map(({ path, message }) => `${path} ${message}`);

describe('a parameter schema', () => {
  it('may use every keyword of the subset', () => {
    const schema: JsonObject = {
      title: 'All',
      description: 'of it',
      type: 'object',
      properties: {
        a: { type: ['integer', 'null'], minimum: 0, maximum: 10, exclusiveMinimum: -1, exclusiveMaximum: 11 },
        b: { type: 'string', minLength: 0, maxLength: 9, default: 'x', enum: ['x', 'y'] },
        c: { type: 'array', items: { const: { deep: [1] } }, minItems: 0, maxItems: 3 },
        d: { type: 'object', additionalProperties: { type: 'number', multipleOf: 0.5 } },
        e: {},
      },
      required: ['a'],
      additionalProperties: false,
    };
    expect(schemaErrors(schema)).toEqual([]);
    expect(schemaErrors({})).toEqual([]);
  });

  it.each([
    '$ref',
    '$schema',
    '$id',
    'pattern',
    'format',
    'patternProperties',
    'allOf',
    'anyOf',
    'oneOf',
    'not',
    'if',
    'uniqueItems',
    'contains',
    'propertyNames',
    'dependentSchemas',
    'definitions',
    '$defs',
    'prefixItems',
    'unevaluatedProperties',
    'nullable',
    '__proto__',
    'constructor',
    'toString',
  ])('must not contain %s', (keyword) => {
    const schema = parse(`{"type":"object","properties":{"p":{${JSON.stringify(keyword)}:{}}}}`);
    expect(faults(schema)).toEqual([`paramSchema.properties.p.${keyword} is not a supported keyword`]);
  });

  it.each<[string, Json]>([
    ['type', 'float'],
    ['type', []],
    ['type', ['string', 'string']],
    ['type', ['string', 'date']],
    ['type', null],
    ['properties', []],
    ['required', 'a'],
    ['required', [1]],
    ['required', ['p', 'p']],
    ['additionalProperties', 'no'],
    ['enum', []],
    ['enum', 'a'],
    ['enum', Array.from({ length: MAX_ENUM_VALUES + 1 }, (_, i) => i)],
    ['minimum', '1'],
    ['maximum', null],
    ['exclusiveMinimum', true],
    ['exclusiveMaximum', []],
    ['multipleOf', 0],
    ['multipleOf', -1],
    ['multipleOf', '2'],
    ['minLength', -1],
    ['maxLength', 1.5],
    ['minItems', '1'],
    ['maxItems', 1e300],
    ['items', [{}]],
    ['items', true],
    ['title', 1],
    ['description', {}],
  ])('must not have %s: %j', (keyword, value) => {
    const schema = of({ properties: { p: {} }, [keyword]: value });
    expect(schemaErrors(schema)).not.toEqual([]);
    expect(schemaErrors(schema)[0]?.path).toContain(`paramSchema.properties.p.${keyword}`);
  });

  it('describes an object and nested objects', () => {
    expect(faults([])).toEqual(['paramSchema must be a schema (an object)']);
    expect(faults({ type: 'string' })).toEqual(['paramSchema.type must be "object", because parameters are named']);
    expect(faults({ type: ['object', 'null'] })[0]).toMatch(/must be "object"/);
    expect(faults({ properties: { a: true } })).toEqual(['paramSchema.properties.a must be a schema (an object)']);
  });

  it('requires only what it lists, unless others are described', () => {
    expect(faults({ properties: { a: {} }, required: ['b'] })[0]).toMatch(/'b' is not listed/);
    expect(faults({ required: ['toString'] })[0]).toMatch(/'toString' is not listed/);
    expect(faults({ properties: {}, required: ['b'], additionalProperties: true })[0]).toMatch(/'b' is not listed/);
    expect(faults({ required: ['b'], additionalProperties: { type: 'number' } })).toEqual([]);
    expect(faults(of({ type: 'object', required: ['free'] }))).toEqual([]);
    expect(faults(of({ properties: {}, required: ['b'] }))[0]).toMatch(/'b' is not listed/);
  });

  it('has at most five levels and 16 KiB', () => {
    const levels = (n: number): JsonObject => (n === 1 ? {} : { properties: { a: levels(n - 1) } });
    const through = (n: number): JsonObject => (n === 1 ? {} : { items: through(n - 1) });
    expect(faults(levels(5))).toEqual([]);
    expect(faults(levels(6))[0]).toMatch(/is more than 5 levels deep/);
    expect(faults({ additionalProperties: through(4) })).toEqual([]);
    expect(faults({ additionalProperties: through(5) })[0]).toMatch(/is more than 5 levels deep/);
    const frame = JSON.stringify({ description: '' }).length;
    expect(faults({ description: 'x'.repeat(16 * 1024 - frame) })).toEqual([]);
    expect(faults({ description: 'x'.repeat(16 * 1024 - frame + 1) })).toEqual(['paramSchema is over 16384 bytes']);
    let deep: Json = 1;
    for (let i = 0; i < 5_000; i += 1) deep = [deep];
    expect(faults({ default: deep })).toEqual(['paramSchema is nested too deeply']);
  });

  it('reports at most 20 faults', () => {
    const properties = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`p${i}`, { pattern: 'x' }]));
    expect(schemaErrors({ properties })).toHaveLength(20);
  });
});

describe('parameters', () => {
  const brightness = parse(
    '{"type":"object","properties":{"level":{"type":"integer","minimum":0,"maximum":100}},"required":["level"]}',
  );

  it('are reported by field with their fault', () => {
    expect(checkParams(brightness, { level: 80 })).toEqual([]);
    expect(checkParams(brightness, {})).toEqual([{ path: 'params.level', message: 'is required' }]);
    expect(checkParams(brightness, { level: 101 })).toEqual([{ path: 'params.level', message: 'must be at most 100' }]);
    expect(checkParams(brightness, { level: '80' })).toEqual([{ path: 'params.level', message: 'must be integer' }]);
    expect(checkParams(brightness, [], 'p')).toEqual([{ path: 'p', message: 'must be an object' }]);
    expect(checkParams(brightness, null)).toEqual([{ path: 'params', message: 'must be an object' }]);
  });

  it('are refused if the schema does not list them, with or without additionalProperties', () => {
    for (const sent of [{}, { additionalProperties: false }, { additionalProperties: true }]) {
      const errors = checkParams({ ...brightness, ...sent }, { level: 1, extra: 1 });
      expect(errors).toEqual([{ path: 'params.extra', message: 'unknown field' }]);
    }
    expect(checkParams({}, { a: 1 })).toHaveLength(1);
    expect(checkParams(brightness, parse('{"level":1,"__proto__":{"x":1}}'))).toHaveLength(1);
    expect(checkParams(brightness, { level: 1, toString: 1 })).toHaveLength(1);
    expect(checkParams(brightness, parse('{"__proto__":{"level":1}}'))).toHaveLength(2);
  });

  it('can have other names if the schema describes them', () => {
    const open = { properties: { a: {} }, additionalProperties: { type: 'number' } };
    expect(checkParams(open, { a: 'x', b: 1 })).toEqual([]);
    expect(checkParams(open, { b: 'x' })).toEqual([{ path: 'params.b', message: 'must be number' }]);
  });

  it('have closed inner objects if these list properties, and open ones otherwise', () => {
    const closed = { type: 'object', properties: { a: {} } };
    expect(accepts(closed, { a: 1 })).toBe(true);
    expect(accepts(closed, { b: 1 })).toBe(false);
    expect(accepts({ ...closed, additionalProperties: true }, { b: 1 })).toBe(true);
    expect(accepts({ type: 'object' }, { b: { c: 1 } })).toBe(true);
    expect(accepts({ type: 'object', additionalProperties: false }, { b: 1 })).toBe(false);
  });

  it.each<[JsonObject, Json, boolean]>([
    [{ type: 'integer' }, 1.0, true],
    [{ type: 'integer' }, 1.5, false],
    [{ type: 'number' }, 1, true],
    [{ type: 'boolean' }, 0, false],
    [{ type: 'null' }, null, true],
    [{ type: 'null' }, 0, false],
    [{ type: 'object' }, [], false],
    [{ type: 'object' }, null, false],
    [{ type: 'array' }, {}, false],
    [{ type: ['string', 'null'] }, null, true],
    [{ type: ['string', 'null'] }, 1, false],
    [{ enum: [1, { a: [2] }] }, { a: [2] }, true],
    [{ enum: [1, '1'] }, true, false],
    [{ const: null }, null, true],
    [{ const: { a: 1 } }, { a: 2 }, false],
    [{ minimum: 5 }, 5, true],
    [{ minimum: 5 }, 4.9, false],
    [{ minimum: 5 }, 'four', true],
    [{ maximum: 5 }, 5, true],
    [{ maximum: 5 }, 5.1, false],
    [{ exclusiveMinimum: 5 }, 5, false],
    [{ exclusiveMinimum: 5 }, 5.1, true],
    [{ exclusiveMaximum: 5 }, 5, false],
    [{ exclusiveMaximum: 5 }, 4.9, true],
    [{ minLength: 2 }, '😀', false],
    [{ minLength: 2 }, '😀😀', true],
    [{ maxLength: 2 }, '😀😀', true],
    [{ maxLength: 2 }, 'abc', false],
    [{ minItems: 1 }, [], false],
    [{ minItems: 1 }, [0], true],
    [{ maxItems: 1 }, [0], true],
    [{ maxItems: 1 }, [0, 1], false],
    [{ items: { type: 'number' } }, [1, 'x'], false],
    [{ items: { type: 'number' } }, [1, 2], true],
  ])('%j accepts %j: %s', (param, value, taken) => expect(accepts(param, value)).toBe(taken));

  it.each<[number, number, boolean]>([
    [0.3, 0.1, true],
    [0.7, 0.1, true],
    [1.1, 0.1, true],
    [4.35, 0.01, true],
    [21.5, 0.5, true],
    [21.4, 0.5, false],
    [0.35, 0.1, false],
    [-0.3, 0.1, true],
    [0, 0.1, true],
    [-0, 3, true],
    [6, 3, true],
    [7, 3, false],
    [1e21, 7e20, false],
    [1e308, 5e-324, true],
    [1e-7, 1e-8, true],
    [1e-8, 1e-7, false],
    [100, 2.5, true],
    [9007199254740992, 2, true],
  ])('%d as a multiple of %d: %s', (value, multipleOf, taken) => expect(accepts({ multipleOf }, value)).toBe(taken));

  it('over 32 KiB or nested too deeply are refused', () => {
    const text = 'x'.repeat(MAX_PARAMS_BYTES - '{"p":""}'.length);
    expect(checkParams(of({}), { p: text })).toEqual([]);
    expect(checkParams(of({}), { p: `${text}x` })).toEqual([{ path: 'params', message: 'is over 32768 bytes' }]);
    let deep: Json = 1;
    for (let i = 0; i < 5_000; i += 1) deep = { deep };
    expect(checkParams(of({}), { p: deep })).toHaveLength(1);
  });

  it('are reported with at most 20 errors', () => {
    const many = Array.from({ length: 50 }, (_, i) => `p${i}`);
    expect(checkParams({}, Object.fromEntries(many.map((name) => [name, 1])))).toHaveLength(20);
    expect(checkParams(of({ items: { type: 'string', minLength: 1 } }), { p: many.map(() => 1) })).toHaveLength(20);
    expect(checkParams(of({ items: { enum: [1], const: 1, minimum: 1 } }), { p: many.map(() => 0) })).toHaveLength(20);
    const properties = Object.fromEntries(many.map((name) => [name, {}]));
    expect(checkParams({ properties, required: many }, {})).toHaveLength(20);
  });

  it('are checked quickly, for any schema of a hostile tenant', () => {
    const values = Array.from({ length: MAX_ENUM_VALUES }, (_, i) => ({ a: i }));
    const schema = of({ items: { enum: values } });
    expect(schemaErrors(schema)).toEqual([]);
    const p = Array.from({ length: 4_000 }, () => ({ a: MAX_ENUM_VALUES - 1 }));
    expect(relativeCost(() => checkParams(schema, { p }))).toBeLessThan(100);
  });
});

describe('compared with ajv', () => {
  const ajv = new Ajv({ strict: false, validateSchema: false, multipleOfPrecision: 9 });
  const name = fc.constantFrom('a', 'b', 'c');
  const small = fc.oneof(
    fc.integer({ min: -5, max: 5 }),
    fc.constantFrom(0.1, 0.3, 2.5, -0.5),
    fc.constantFrom('', 'a', 'ab', '😀'),
    fc.boolean(),
    fc.constant(null),
  );
  const { value, schema } = fc.letrec<{ value: Json; schema: JsonObject }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 2 },
      small,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(name, tie('value'), { maxKeys: 3, noNullPrototype: true }),
    ) as fc.Arbitrary<Json>,
    schema: fc.record(
      {
        type: fc.constantFrom('object', 'array', 'string', 'number', 'integer', 'boolean', 'null'),
        enum: fc.array(tie('value'), { minLength: 1, maxLength: 4 }),
        const: tie('value'),
        minimum: fc.integer({ min: -3, max: 3 }),
        exclusiveMaximum: fc.integer({ min: -3, max: 5 }),
        multipleOf: fc.constantFrom(0.1, 0.5, 1, 2),
        minLength: fc.nat(2),
        maxLength: fc.nat(2),
        minItems: fc.nat(2),
        maxItems: fc.nat(3),
        items: fc.oneof({ maxDepth: 2 }, fc.constant({}), tie('schema')),
        properties: fc.dictionary(name, fc.oneof({ maxDepth: 2 }, fc.constant({}), tie('schema')), {
          maxKeys: 3,
          noNullPrototype: true,
        }),
        required: fc.uniqueArray(name, { maxLength: 2 }),
        additionalProperties: fc.boolean(),
      },
      { requiredKeys: ['additionalProperties'] },
    ) as fc.Arbitrary<JsonObject>,
  }));

  it('every result is the same', () => {
    fc.assert(
      fc.property(schema, fc.array(value, { minLength: 1, maxLength: 8 }), (param, values) => {
        const validate = ajv.compile(param);
        ajv.removeSchema(param);
        for (const one of values) expect(accepts(param, one), JSON.stringify(one)).toBe(validate(one));
      }),
      runs(100),
    );
  });
});
