import { describe, expect, it } from 'vitest';
import { MAX_JSON_DEPTH } from '../../../src/domain/json/strict.ts';
import { isObject, jsonBytes, jsonEqual, setOwn } from '../../../src/domain/json/value.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import { fc } from '../../support/properties.ts';

const json = fc.jsonValue({ maxDepth: 5 }) as fc.Arbitrary<Json>;
const nested = (levels: number): Json => (levels === 0 ? 1 : { a: nested(levels - 1) });

describe('the size of a JSON text', () => {
  it('is that of JSON.stringify in UTF-8, for every value', () => {
    fc.assert(fc.property(json, (value) => jsonBytes(value) === Buffer.byteLength(JSON.stringify(value))));
  });

  it('counts escapes, large and negative numbers as JSON writes them', () => {
    for (const value of [
      '"\\\n\u0001',
      'é€😀',
      '\u007f',
      'x'.repeat(64),
      'é'.repeat(65),
      -0,
      1e21,
      1.5e-7,
      true,
      false,
      null,
      [],
      {},
      [[]],
      { a: {} },
    ]) {
      expect(jsonBytes(value)).toBe(Buffer.byteLength(JSON.stringify(value)));
    }
  });

  it('is infinite for values nested deeper than 32 levels', () => {
    expect(jsonBytes(nested(MAX_JSON_DEPTH))).toBe(JSON.stringify(nested(MAX_JSON_DEPTH)).length);
    expect(jsonBytes(nested(MAX_JSON_DEPTH + 1))).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('JSON equality', () => {
  it('holds between a value and its copy, whatever the order of the properties', () => {
    const reversed = (value: Json): Json => {
      if (Array.isArray(value)) return value.map(reversed);
      if (!isObject(value)) return value;
      const copy: JsonObject = {};
      for (const key of Object.keys(value).reverse()) setOwn(copy, key, reversed(value[key] as Json));
      return copy;
    };
    fc.assert(fc.property(json, (value) => jsonEqual(value, reversed(value))));
  });

  it('distinguishes values that JSON distinguishes', () => {
    const different: Json[] = [null, false, 0, '', '0', [], {}, [0], [0, 0], { a: 0 }, { b: 0 }, { a: 0, b: 0 }, [[]]];
    for (const [i, a] of different.entries()) {
      for (const [j, b] of different.entries()) expect(jsonEqual(a, b)).toBe(i === j);
    }
  });
});

describe('a property named __proto__', () => {
  it('is stored as a property and leaves the prototype unchanged', () => {
    const target: JsonObject = {};
    setOwn(target, '__proto__', { polluted: true });
    expect(Object.keys(target)).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(target)).toBe(Object.prototype);
  });
});
