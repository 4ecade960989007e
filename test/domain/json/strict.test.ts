import { describe, expect, it } from 'vitest';
import { checkJson, MAX_JSON_DEPTH, parseJson } from '../../../src/domain/json/strict.ts';
import { fc } from '../../support/properties.ts';
import { slow } from '../../support/slow.ts';

const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;

describe('parseJson', () => {
  it.each([
    ['null', null],
    [' 1 ', 1],
    ['"a:b{[\\"}"', 'a:b{["}'],
    ['"\\\\"', '\\'],
    ['{"a":{"a":[{"a":1},{"a":2}]},"b":"\\\\\\":"}', { a: { a: [{ a: 1 }, { a: 2 }] }, b: '\\":' }],
    ['{"":1,"\\u20ac":"\\ud83d\\ude00"}', { '': 1, '€': '😀' }],
    ['"\\\\u0000"', '\\u0000'],
  ])('reads %s', (text, value) => {
    expect(parseJson(text)).toEqual({ ok: true, value });
    expect(parseJson(Buffer.from(text))).toEqual({ ok: true, value });
  });

  it.each(['', '{', '{"a":1,}', "{'a':1}", 'NaN', '[1] []', '"\n"', '"a\0b"', '\ufeff{}', '01', '"\\x41"'])(
    'refuses %j, which is not JSON',
    (text) => {
      expect(parseJson(text)).toEqual({ ok: false, reason: 'not valid JSON' });
      expect(parseJson(Buffer.from(text))).toEqual({ ok: false, reason: 'not valid JSON' });
    },
  );

  it.each(['{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '[{"b":{"x":1,"y":2,"x":3}}]', '{"__proto__":1,"__proto__":2}'])(
    'refuses the repeated key in %s',
    (text) => {
      expect(parseJson(text)).toEqual({ ok: false, reason: 'a key is repeated', lenient: JSON.parse(text) });
    },
  );

  it('allows the same key in different objects', () => {
    expect(parseJson('{"a":{"b":1},"b":{"a":1},"c":[{"a":1},{"a":1}]}').ok).toBe(true);
  });

  it.each(['["\\u0000"]', '{"a\\u0000":1}', '{"a":{"b":"x\\u0000"}}'])('refuses U+0000 in %s', (text) => {
    expect(parseJson(text)).toMatchObject({ ok: false, reason: 'a string contains U+0000' });
    expect(parseJson(Buffer.from(text))).toMatchObject({ ok: false, reason: 'a string contains U+0000' });
  });

  it.each(['["\\ud800"]', '{"\\udc00":1}', '["\\ude00\\ud83d"]', '["\\uD83D"]'])(
    'refuses the lone surrogate in %s',
    (text) => {
      expect(parseJson(text)).toMatchObject({ ok: false, reason: 'a string contains a lone surrogate' });
      expect(parseJson(Buffer.from(text))).toMatchObject({ ok: false, reason: 'a string contains a lone surrogate' });
    },
  );

  it('refuses a lone surrogate that is not escaped', () => {
    expect(parseJson('["\ud800"]')).toMatchObject({ ok: false, reason: 'a string contains a lone surrogate' });
  });

  it('refuses bytes that are not UTF-8, and reports what a lenient parser would have read', () => {
    const bytes = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff]), Buffer.from('"}')]);
    expect(parseJson(bytes)).toEqual({ ok: false, reason: 'not valid UTF-8', lenient: { a: '\ufffd' } });
    expect(parseJson(Buffer.from([0xc0, 0x80]))).toEqual({ ok: false, reason: 'not valid UTF-8', lenient: undefined });
    // A surrogate encoded as UTF-8 (CESU-8) is invalid UTF-8.
    expect(parseJson(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]))).toMatchObject({ reason: 'not valid UTF-8' });
  });

  it('refuses a number outside the range of a double', () => {
    expect(parseJson('{"a":[1e400]}')).toMatchObject({ ok: false, reason: 'a number is out of range' });
    expect(parseJson('-1e309').ok).toBe(false);
  });

  it('accepts 32 levels counted from the root, and refuses 33', () => {
    expect(MAX_JSON_DEPTH).toBe(32);
    expect(parseJson(nested(32)).ok).toBe(true);
    expect(parseJson(nested(33))).toMatchObject({ ok: false, reason: 'nested too deeply' });
    const objects = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
    expect(parseJson(objects(32)).ok).toBe(true);
    expect(parseJson(objects(33)).ok).toBe(false);
  });

  it('counts depth instead of brackets, and ignores brackets in strings', () => {
    expect(parseJson(`[${'[],{},'.repeat(100)}"${'['.repeat(100)}"]`, { maxDepth: 2 }).ok).toBe(true);
    expect(parseJson('[[[]]]', { maxDepth: 2 }).ok).toBe(false);
    expect(parseJson('[[[]],[]]', { maxDepth: 2 }).ok).toBe(false);
    expect(parseJson('1', { maxDepth: 0 }).ok).toBe(true);
  });

  it('parses a hundred thousand levels without a stack overflow', () => {
    expect(parseJson(nested(100_000))).toMatchObject({ ok: false, reason: 'nested too deeply' });
  });

  it('keeps __proto__ as plain data without changing a prototype', () => {
    const reading = parseJson('{"__proto__":{"admin":true},"a":1}');
    if (!reading.ok) throw new Error(reading.reason);
    const value = reading.value as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value)).toEqual(['__proto__', 'a']);
    expect(value.admin).toBeUndefined();
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
  });

  it('reads what JSON.stringify writes of well-formed values without U+0000', slow, () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8, stringUnit: 'binary' }), (value) => {
        const text = JSON.stringify(value);
        const clean = !/\\u0000|\\ud[89a-f]/.test(text);
        const reading = parseJson(Buffer.from(text));
        expect(reading.ok).toBe(clean);
        if (reading.ok) expect(reading.value).toEqual(JSON.parse(text));
        expect(checkJson(value).ok).toBe(clean);
      }),
    );
  });

  it('refuses an object with a repeated member', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 }), fc.nat(), (object, pick) => {
        const text = JSON.stringify(object);
        const clean = parseJson(text).ok;
        const keys = Object.keys(object);
        const again = JSON.stringify(keys[pick % keys.length]);
        const twice = `${text.slice(0, -1)},${again}:0}`;
        expect(parseJson(twice).ok).toBe(false);
        if (clean) expect(parseJson(twice)).toMatchObject({ reason: 'a key is repeated' });
      }),
    );
  });
});

describe('checkJson', () => {
  it.each([null, true, 'text', 1.5, [], {}, [{ a: [1, null] }]])('accepts %j', (value) => {
    expect(checkJson(value)).toEqual({ ok: true });
  });

  it.each([
    ['a\0', 'a string contains U+0000'],
    [{ 'a\0': 1 }, 'a string contains U+0000'],
    [['\ud800'], 'a string contains a lone surrogate'],
    [{ '\udfff': 1 }, 'a string contains a lone surrogate'],
    [Number.NaN, 'a number is out of range'],
    [{ a: [Number.POSITIVE_INFINITY] }, 'a number is out of range'],
    [undefined, 'a undefined is not valid JSON'],
    [[1n], 'a bigint is not valid JSON'],
    [{ a: () => 1 }, 'a function is not valid JSON'],
  ])('refuses %o', (value, reason) => {
    expect(checkJson(value)).toEqual({ ok: false, reason });
  });

  it('accepts 32 levels counted from the root, refuses 33 and cycles', () => {
    expect(checkJson(JSON.parse(nested(32)))).toEqual({ ok: true });
    expect(checkJson(JSON.parse(nested(33)))).toEqual({ ok: false, reason: 'nested too deeply' });
    expect(checkJson({ a: [1] }, { maxDepth: 1 }).ok).toBe(false);
    const circle: unknown[] = [];
    circle.push(circle);
    expect(checkJson(circle).ok).toBe(false);
  });
});
