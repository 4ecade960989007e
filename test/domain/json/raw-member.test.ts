import { describe, expect, it } from 'vitest';
import { rawMember } from '../../../src/domain/json/raw-member.ts';
import { parseJson } from '../../../src/domain/json/strict.ts';
import type { JsonObject } from '../../../src/domain/values.ts';
import { expectReached, fc, runs } from '../../support/properties.ts';

/** The text of the member `payload`; null if there is none, or several. */
function rawOf(text: string): string | null {
  const raw = rawMember(Buffer.from(text), 'payload');
  return raw === null ? null : Buffer.from(raw).toString();
}

describe('rawMember', () => {
  it.each([
    ['{"payload":{"a":1.0}}', '{"a":1.0}'],
    ['{ "payload" :\t{ "a" : 25.0 }\r\n }', '{ "a" : 25.0 }'],
    ['{"a":{"payload":{"x":1}},"payload":{},"b":[{"payload":2}]}', '{}'],
    ['{"a":"\\"payload\\":{","payload": {"b":"}],\\\\"} ,"c":1}', '{"b":"}],\\\\"}'],
    ['{"x\\"payload":1,"payload":{"é":"😀"}}', '{"é":"😀"}'],
    ['{"p\\u0061yload":{"a":1}}', '{"a":1}'],
    ['{"payload":"text","a":1}', '"text"'],
    ['{"payload":[1, 2],"a":1}', '[1, 2]'],
    ['{"payload":-0.50}', '-0.50'],
  ])('returns the bytes as sent: %s', (text, raw) => {
    expect(parseJson(text).ok).toBe(true);
    expect(rawOf(text)).toBe(raw);
  });

  it.each([
    '{}',
    '{"a":{"payload":1}}',
    '[{"payload":1}]',
    '["payload",1]',
    '"payload"',
    '1',
    '{"payload":{},"payload":{}}',
    '{"payload":{},"p\\u0061yload":{}}',
  ])('returns null: %s', (text) => {
    expect(rawOf(text)).toBeNull();
  });

  const space = fc.constantFrom('', '', ' ', '\n', '\t\r ');
  const spaced = (text: fc.Arbitrary<string>) => fc.tuple(space, text, space).map((parts) => parts.join(''));
  const escaped = (text: string) =>
    JSON.stringify(text).replace(/[a-z]/g, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`);
  const plainKey = fc.oneof(
    fc.constantFrom('a', 'b', 'payload', 'x"payload', '\\', ':{', '},'),
    fc.string({ unit: 'binary', maxLength: 4 }),
  );
  const string = fc
    .tuple(plainKey, fc.boolean())
    .map(([text, isEscaped]) =>
      isEscaped && JSON.stringify(text) === `"${text}"` ? escaped(text) : JSON.stringify(text),
    );
  const listed = (texts: string[], open: string, close: string) => `${open}${texts.join(',')}${close}`;
  const member = (value: fc.Arbitrary<string>) => fc.tuple(spaced(string), spaced(value)).map((pair) => pair.join(':'));
  const { json } = fc.letrec<{ json: string }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom('0', '-0', '25.0', '1e3', '1E-7', '12345678901234567890', 'true', 'false', 'null', '{ }', '[ ]'),
      string,
      fc.array(spaced(tie('json')), { maxLength: 3 }).map((texts) => listed(texts, '[', ']')),
      fc.array(member(tie('json')), { maxLength: 3 }).map((texts) => listed(texts, '{', '}')),
    ),
  }));

  it('for random texts that parseJson accepts, the bytes parse to the value of the member', () => {
    const others = fc.array(member(json), { maxLength: 3 });
    let found = 0;
    let repeated = 0;
    fc.assert(
      fc.property(others, space, space, json, others, (before, ahead, behind, value, after) => {
        const text = listed([...before, `"payload"${ahead}:${behind}${value}${ahead}`, ...after], '{', '}');
        const read = parseJson(Buffer.from(text));
        if (read.ok) {
          found += 1;
          expect(rawOf(text)).toBe(value);
          expect(JSON.parse(rawOf(text) as string)).toEqual((read.value as JsonObject).payload);
        } else if (read.reason === 'a key is repeated') {
          repeated += 1;
          const raw = rawOf(text);
          if (raw !== null) expect(raw).toBe(value);
        }
      }),
      runs(600),
    );
    expectReached(() => {
      expect(found).toBeGreaterThan(100);
      expect(repeated).toBeGreaterThan(10);
    });
  });
});
