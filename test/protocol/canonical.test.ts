import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../src/domain/json/strict.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { canonicalFieldNames, canonicalPayload, canonicalString, payloadHash } from '../../src/protocol/canonical.ts';
import { fc } from '../support/properties.ts';

const json = () =>
  fc
    .jsonValue({ maxDepth: 6, stringUnit: 'binary' })
    .filter((value) => parseJson(JSON.stringify(value)).ok) as fc.Arbitrary<Json>;

/** The same value with every object's members in the opposite order. */
function reversed(value: Json): Json {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(reversed);
  const members = Object.entries(value).map(([key, item]) => [key, reversed(item)] as const);
  return Object.fromEntries(members.reverse());
}

describe('canonicalPayload', () => {
  it.each<[Json, string]>([
    [{ b: 1, a: 2 }, '{"a":2,"b":1}'],
    [[-0, 1e21, 1e-7, 1.0, 333333333.3333333], '[0,1e+21,1e-7,1,333333333.3333333]'],
    [{ '\u20ac': 1, '\ud83d\ude00': 2, '\ufb33': 3 }, '{"\u20ac":1,"\ud83d\ude00":2,"\ufb33":3}'],
    ['\u0007\b\t\n\f\r"\\/\u007f', '"\\u0007\\b\\t\\n\\f\\r\\"\\\\/\u007f"'],
    [{ '10': 1, '9': 2 }, '{"10":1,"9":2}'],
  ])('of %j is as in RFC 8785', (value, text) => {
    expect(canonicalPayload(value)).toBe(text);
  });

  it('keeps a member named __proto__', () => {
    const value = JSON.parse('{"b":1,"__proto__":{"x":1}}') as JsonObject;
    expect(canonicalPayload(value)).toBe('{"__proto__":{"x":1},"b":1}');
  });

  it('is JSON of the same value, and independent of the order of members', () => {
    fc.assert(
      fc.property(json(), (value) => {
        const text = canonicalPayload(value);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(canonicalPayload(reversed(value))).toBe(text);
        expect(canonicalPayload(JSON.parse(text))).toBe(text);
      }),
    );
  });
});

describe('payloadHash', () => {
  it('is the SHA-256 of the canonical form in lower-case hex', () => {
    fc.assert(
      fc.property(json(), (value) => {
        expect(payloadHash(value)).toBe(createHash('sha256').update(canonicalPayload(value)).digest('hex'));
      }),
    );
  });

  it('of an empty payload is the documented one', () => {
    expect(payloadHash({})).toBe('44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a');
  });
});

describe('canonicalString', () => {
  it('joins exactly eleven fields in the order of the specification', () => {
    const fields = {
      payload_hash: 'k',
      message_type: 'j',
      nonce: 'i',
      timestamp: 8,
      sequence_number: 7,
      request_id: '',
      message_id: 'e',
      client_id: 'd',
      tenant_id: 'c',
      device_id: 'b',
      version: 'a',
    };
    expect(canonicalString(fields)).toBe('a|b|c|d|e||7|8|i|j|k');
    expect(canonicalString(fields)).toBe(canonicalFieldNames.map((name) => String(fields[name])).join('|'));
    expect(canonicalFieldNames).toHaveLength(11);
  });
});
