import canonicalize from 'canonicalize';
import { describe, expect, it } from 'vitest';
import { canonicalEnd, NO_MATCH, scanJson } from '../../../src/domain/json/canonical-scan.ts';
import { parseCanonical, parseJson } from '../../../src/domain/json/strict.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import { canonicalPayload } from '../../../src/protocol/canonical.ts';
import { expectReached, fc, runs } from '../../support/properties.ts';
import { slow } from '../../support/slow.ts';

/** The text of the member `payload` if it is reported as canonical, otherwise null. */
function claimOf(text: string): string | null {
  const reading = parseJson(Buffer.from(text), { canonical: 'payload' });
  if (!reading.ok) throw new Error(reading.reason);
  return reading.canonical === undefined ? null : Buffer.from(reading.canonical).toString();
}

describe('a canonical payload is recognized:', () => {
  it.each([
    '{}',
    '{"a":1}',
    '{"":1}',
    '{"":0,"a":1}',
    '{"A":1,"_":2,"a":3,"aa":4,"ab":5,"b":6}',
    '{"10":1,"9":2}',
    '{"__proto__":{"x":1},"a":1}',
    '{"a":{"z":1},"b":{"a":{}},"c":[]}',
    '{"a":[{"b":1,"c":2},{"b":1}],"d":[[],[[]],true,false,null]}',
    '{"a":"","b":"x y | : , { } [ ]","c":"Küche ☀ 😀"}',
    '{"a":"\u007f\u2028"}',
    '{"a\u007f":1}',
    '{"a":0,"b":-1,"c":10,"d":100000000000000,"e":-999999999999999}',
    '{"a":0.5,"b":-0.5,"c":0.000001,"d":0.123456,"e":22.5,"f":52.5200066,"g":1.00000000001}',
    '{"payload":{"payload":1}}',
    `${'{"a":'.repeat(31)}1${'}'.repeat(31)}`,
    `{"a":${'['.repeat(30)}${']'.repeat(30)}}`,
  ])('%s', (payload) => {
    expect(payload).toBe(canonicalize(JSON.parse(payload)));
    for (const [before, after] of [
      ['', ''],
      ['"version":"PROTO/3.1","n":12,', ''],
      ['', ',"signature":"x","o":{"payload":{"b":1}}'],
      ['"o":{"payload":{ "b":1,"a":1}},"list":[{"payload":{}}],"text":"\\"payload\\":{",', ',"z":1.0'],
    ]) {
      expect(claimOf(`{${before}"payload":${payload}${after}}`)).toBe(payload);
    }
    // White space of the root object does not affect the member.
    expect(claimOf(`{ "a" : 1 ,\n "payload":${payload} ,\t"b":1 } `)).toBe(payload);
  });

  it('and the scan reports only the requested span', () => {
    const text = Buffer.from('{"other":{"a":1},"payload":{"b":1}}');
    expect(parseJson(text)).toEqual({ ok: true, value: JSON.parse(text.toString()) });
    expect(parseJson(text, { canonical: 'other' })).toMatchObject({ canonical: Buffer.from('{"a":1}') });
    expect(parseJson(text, { canonical: 'absent' })).not.toHaveProperty('canonical');
    expect(scanJson(text, null)).toEqual({ members: 4, depth: 2, canonical: null });
    expect(scanJson(text, 'payload')).toEqual({ members: 3, depth: 2, canonical: { from: 27, to: 34 } });
  });

  it('but not in a string, which would hide ill-formed characters', () => {
    expect(parseJson('{"payload":{"a":1}}', { canonical: 'payload' })).not.toHaveProperty('canonical');
    expect(parseJson('{"payload":{"a":"\ud800"}}', { canonical: 'payload' }).ok).toBe(false);
  });
});

describe('the scan claims nothing for', () => {
  it.each([
    '{"a":1.0}',
    '{"a":0.10}',
    '{"a":1e3}',
    '{"a":1E3}',
    '{"a":1e-7}',
    '{"a":1.5e1}',
    '{"a":-0}',
    '{"a":-0.0}',
    '{"a":0.0}',
    '{"a":[-0]}',
    '{"a":0.0000001}',
    '{"a":-0.0000001}',
    '{"a":1000000000000000000000}',
    '{"a":9007199254740993}',
    '{"a":1.7976931348623157e308}',
    '{"a":0.1000000000000000055}',
    '{"b":1,"a":1}',
    '{"a":{"c":1,"b":1}}',
    '{"a":[{"c":1,"b":1}]}',
    '{"aa":1,"a":1}',
    '{"b":1,"":1}',
    '{"9":1,"10":2}',
    '{"b":1,"__proto__":1}',
    '{"a":"\\u0062"}',
    '{"a":"\\/"}',
    '{"\\u0061":1}',
    '{ "a":1}',
    '{"a" :1}',
    '{"a": 1}',
    '{"a":1 }',
    '{"a":1 ,"b":1}',
    '{"a":1, "b":1}',
    '{ }',
    '{"a":{ }}',
    '{"a":[ ]}',
    '{"a":[1 ]}',
    '{"a":[1, 2]}',
    '{"a":[1,\t2]}',
    '{"a":true\n}',
    '{"a":"x"\r}',
    // Canonical, but not recognized: RFC 8785 orders these keys differently than their bytes.
    '{"\ufb33":1,"\ud83d\ude00":2}',
    '{"\ud83d\ude00":1,"\ufb33":2}',
  ])('a payload like %s', (payload) => {
    expect(claimOf(`{"payload":${payload}}`)).toBeNull();
    expect(claimOf(`{"a":{"payload":{}},"payload":${payload},"b":{"payload":{}}}`)).toBeNull();
    expect(claimOf(`{"payload":{"0":${payload}}}`)).toBeNull();
  });

  it.each([
    ['one in another member', '{"a":{"payload":{"b":1}}}'],
    ['one in a list', '[{"payload":{"b":1}}]'],
    ['one with an escaped name', '{"p\\u0061yload":{"b":1}}'],
    ['a longer name with a quote in it', '{"x\\"payload":{"b":1}}'],
    ['a name that ends so', '{"xpayload":{"b":1}}'],
    ['a name that begins so', '{"payloads":{"b":1}}'],
    ['another name of that length', '{"paylaod":{"b":1}}'],
    ['a value of that name', '{"a":"payload","b":{"b":1}}'],
    ['a text that looks like it', '{"a":"\\"payload\\":{\\"b\\":1}"}'],
    ['a name followed by white space', '{"payload" :{"b":1}}'],
    ['a list', '{"payload":[]}'],
    ['a text', '{"payload":"{}"}'],
    ['null', '{"payload":null}'],
    ['one after white space', '{"payload": {"b":1}}'],
  ])('%s', (_, text) => {
    expect(claimOf(text)).toBeNull();
  });

  it.each([
    ['a key is repeated', '{"payload":{"a":1,"a":1}}'],
    ['a key is repeated', '{"payload":{"a":1},"payload":{"a":1}}'],
    ['a key is repeated', '{"payload":{"a":1},"payload":{"b":1,"a":1}}'],
    ['a key is repeated', '{"payload":{"b":1,"a":1},"payload":{"a":1}}'],
    ['a key is repeated', '{"payload":{"a":1},"p\\u0061yload":{"a":2}}'],
    ['a key is repeated', '{"p\\u0061yload":{"a":2},"payload":{"a":1}}'],
    ['a key is repeated', '{"payload":{"a":1},"x":1,"x" :":"}'],
    ['a key is repeated', '{"payload":{"a":1,"\\u0061":1}}'],
    ['a number is out of range', '{"payload":{"a":1E400}}'],
    ['a number is out of range', '{"payload":{"a":1},"x":1E400}'],
    ['a string contains U+0000', '{"payload":{"a":"\\u0000"}}'],
    ['a string contains U+0000', '{"payload":{"a":1},"x":["\\u0000"]}'],
    ['a string contains U+0000', '{"payload":{"a":1},"x\\u0000":1}'],
    ['a string contains a lone surrogate', '{"payload":{"a":"\\ud800"}}'],
    ['a string contains a lone surrogate', '{"payload":{"a":1},"x":{"\\udfff":1}}'],
    ['nested too deeply', `{"payload":${'{"a":'.repeat(32)}1${'}'.repeat(32)}}`],
    ['nested too deeply', `{"payload":{"a":${'['.repeat(31)}${']'.repeat(31)}}}`],
  ])('text that the parser refuses, which stays refused: %s', (reason, text) => {
    const refused = parseJson(Buffer.from(text), { canonical: 'payload' });
    expect(refused).toEqual({ ok: false, reason, lenient: JSON.parse(text) });
    expect(parseJson(Buffer.from(text))).toEqual(refused);
  });

  it.each([
    `{"payload":${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}}`,
    `{"payload":{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`,
  ])('nesting that would overflow the stack of a recursive parser', (text) => {
    expect(scanJson(Buffer.from(text), 'payload')).toMatchObject({ canonical: null });
    const { ok, reason } = parseJson(Buffer.from(text), { canonical: 'payload' }) as { ok: boolean; reason: string };
    expect({ ok, reason }).toEqual({ ok: false, reason: 'nested too deeply' });
  });
});

/** Returns the numbers that fast-check generated, cyclically. */
function drawer(choices: readonly number[]): (upTo: number) => number {
  let at = 0;
  return (upTo) => (choices[at++ % choices.length] as number) % upTo;
}

/** A JSON text of the value: mostly canonical (RFC 8785), sometimes with a different order, escaping or spacing. */
function written(value: Json, draw: (upTo: number) => number): string {
  const gap = () => [' ', '\n', '\t'][draw(90)] ?? '';
  if (typeof value === 'number') {
    const ways = [`${value}.0`, value.toExponential(), `${value}`, `${value}e0`, `-${value}`, `${value}0`];
    const way = ways[draw(30)] ?? JSON.stringify(value);
    try {
      JSON.parse(way);
      return way;
    } catch {
      return JSON.stringify(value);
    }
  }
  if (typeof value === 'string') {
    const plain = JSON.stringify(value);
    const escaped = plain.replace(/[a-z0-9]/, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
    return draw(15) === 0 ? escaped : plain;
  }
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => gap() + written(item, draw) + gap()).join(',')}]`;
  const keys = Object.keys(value).sort();
  if (draw(8) === 0) keys.reverse();
  const members = keys.map((key) => `${written(key, draw)}${gap()}:${gap()}${written(value[key] as Json, draw)}`);
  if (members.length > 0 && draw(12) === 0) members.push(members[draw(members.length)] as string);
  return `{${gap()}${members.join(',')}${gap()}}`;
}

describe('for random input,', () => {
  const key = fc.oneof(fc.string({ maxLength: 4 }), fc.constantFrom('payload', '__proto__', '10', '9', 'a', 'ab', 'é'));
  const leaf = fc.oneof(
    fc.constantFrom(null, true, false, '', 'text', 'Küche', '😀', '"', '\\', '\u2028'),
    fc.string({ unit: 'binary', maxLength: 6 }),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer({ min: -100_000, max: 100_000 }).map((n) => n / 1_000),
    fc.integer({ min: -10_000, max: 10_000 }).map((n) => n / 10 ** 9),
  );
  const { value: anyJson } = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      leaf,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(key, tie('value'), { maxKeys: 5, noNullPrototype: true }),
    ),
  }));
  const object = fc.dictionary(key, anyJson, { maxKeys: 6, noNullPrototype: true });
  const choices = fc.array(fc.nat(), { minLength: 20, maxLength: 60 });

  it('text recognized as canonical equals the output of canonicalize, and parsing is unchanged', slow, () => {
    let claims = 0;
    fc.assert(
      fc.property(object, object, choices, (payload, extra, drawn) => {
        const draw = drawer(drawn);
        const others = written(extra, draw).replace(/^\{\s*|\s*\}$/g, '');
        const members = [`"payload":${written(payload, draw)}`, ...(others === '' ? [] : [others])];
        if (draw(2) === 0) members.reverse();
        const bytes = Buffer.from(`{${members.join(',')}}`);
        const reading = parseJson(bytes, { canonical: 'payload' });
        const plain = parseJson(bytes);
        expect({ ...reading, canonical: undefined }).toEqual({ ...plain, canonical: undefined });
        if (!reading.ok || reading.canonical === undefined) return;
        claims += 1;
        const { payload: read } = reading.value as { payload: JsonObject };
        expect(Buffer.from(reading.canonical).toString()).toBe(canonicalize(read));
        expect(canonicalPayload(read)).toBe(canonicalize(read));
      }),
      runs(600),
    );
    expectReached(() => expect(claims).toBeGreaterThan(30));
  });

  it('a number is recognized exactly if ECMAScript writes it so', () => {
    const digits = (most: number) => fc.stringMatching(new RegExp(`^[0-9]{0,${most}}$`));
    const number = fc
      .tuple(fc.constantFrom('', '-'), digits(18), digits(18), fc.constantFrom('', 'e5', 'E-7', 'e+2'))
      .map(([sign, whole, part, exponent]) => `${sign}${whole}${part === '' ? '' : `.${part}`}${exponent}`)
      .filter((text) => /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text));
    fc.assert(
      fc.property(number, (text) => {
        const claim = claimOf(`{"payload":{"a":[${text},${text}]}}`);
        if (claim !== null) expect(`${Number(text)}`).toBe(text);
      }),
      runs(600),
    );
    const ordinary = fc.tuple(fc.integer({ min: -(10 ** 9), max: 10 ** 9 }), fc.integer({ min: 0, max: 4 }));
    fc.assert(
      fc.property(ordinary, ([n, places]) => {
        const text = `{"a":${n / 10 ** places}}`;
        expect(claimOf(`{"payload":${text}}`)).toBe(text);
      }),
      runs(300),
    );
  });
});

describe('canonicalEnd, for any bytes,', () => {
  it('ends where the object ends, and respects the depth limit', () => {
    const object = '{"a":[1,{"b":"x"}],"ab":"é","b":{}}';
    const bytes = Buffer.from(`xx${object},"c":1}`);
    expect(canonicalEnd(bytes, 2, 32)).toBe(2 + Buffer.byteLength(object));
    expect(canonicalEnd(bytes, 2, 4)).toBe(2 + Buffer.byteLength(object));
    expect(canonicalEnd(bytes, 2, 3)).toBe(NO_MATCH);
    // The depth limit of the previous call has no effect on the next one.
    expect(canonicalEnd(Buffer.from('{"a":1}'), 0, 2)).toBe(7);
    for (const start of [0, 1, 3, 7, bytes.length - 1, bytes.length, bytes.length + 5]) {
      expect(canonicalEnd(bytes, start, 32)).toBe(NO_MATCH);
    }
  });

  it('reports bytes after the object as remaining input', () => {
    for (const text of ['{"":1,"a":1,"a ":1,"a!":1,"a\'":1,"b":1}', '{"a":1,"a\u007f":1}']) {
      expect(canonicalEnd(Buffer.from(text), 0, 32)).toBe(text.length);
      expect(canonicalize(JSON.parse(text))).toBe(text);
    }
    for (const text of ['{"a ":1,"a":1}', '{"a!":1,"a":1}', '{"a!":1,"a ":1}', '{"a":1,"":1}']) {
      expect(canonicalEnd(Buffer.from(text), 0, 32)).toBe(NO_MATCH);
    }
  });

  it('terminates for input that is cut off anywhere', () => {
    const bytes = Buffer.from('{"a":[1,{"b":"x\u{1F600}"},-1.5],"ab":true,"b":{"c":null,"d":[],"e":"\\u0041"}}');
    for (let end = 0; end < bytes.length; end += 1) {
      for (let start = 0; start < end; start += 1) {
        const found = canonicalEnd(bytes.subarray(0, end), start, 32);
        if (found !== NO_MATCH) expect(bytes.toString('latin1', start, found)).toMatch(/^\{.*\}$/);
      }
    }
  });

  it('and what it ends is canonical if it is JSON', () => {
    const token = fc.constantFrom(
      ...[
        '{',
        '{',
        '}',
        '}',
        '[',
        ']',
        ':',
        ',',
        ',',
        '"',
        '\\',
        ' ',
        '-',
        '0',
        '1',
        '.5',
        '5.0',
        'e1',
        'true',
        'null',
      ],
      ...['"a":', '"b":', '"ab":', '"é":', '"":', '{}', '[]', '"x"', '"x"', '"\\u0061"', '\u0001', '1', '1', 'false'],
    );
    let claims = 0;
    fc.assert(
      fc.property(fc.array(token, { maxLength: 16 }), (tokens) => {
        const bytes = Buffer.from(`{"a":${tokens.join('')}}`);
        const end = canonicalEnd(bytes, 0, 32);
        if (end === NO_MATCH) return;
        const value = parseCanonical(bytes.subarray(0, end));
        if (value === null) return;
        claims += 1;
        expect(bytes.toString('utf8', 0, end)).toBe(canonicalize(value));
      }),
      runs(4_000),
    );
    expectReached(() => expect(claims).toBeGreaterThan(15));
  });

  it('and rejects bytes that are not JSON or not UTF-8', () => {
    for (const text of ['{"a":tru!}', '{"a":01}', '{"a":"\n"}', '{"a":1}}', '']) {
      expect(parseCanonical(Buffer.from(text))).toBeNull();
    }
    expect(canonicalEnd(Buffer.from('{"a":"\xff"}', 'latin1'), 0, 32)).toBe(9);
    expect(parseCanonical(Buffer.from('{"a":"\xff"}', 'latin1'))).toBeNull();
    expect(parseCanonical(Buffer.from('{"a":"é"}'))).toEqual({ a: 'é' });
  });
});
