import type { Json, JsonObject } from '../../src/domain/values.ts';
import { fc } from '../support/properties.ts';

const deep = (levels: number): Json => (levels === 0 ? 1 : [deep(levels - 1)]);
const dug = JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`) as Json;

/** Values that no field expects. */
export const hostileValue = (ids: readonly string[]): fc.Arbitrary<Json> =>
  fc.oneof(
    fc.constantFrom<Json>(
      ...[null, true, false, 0, -0, -1, 0.5, 1e308, 2 ** 53, -(2 ** 63), 5e-324],
      ...[
        '',
        ' ',
        '\t\n',
        'x'.repeat(300),
        'x'.repeat(100_000),
        '\u0000',
        'a\u0000b',
        '\ud800',
        '\udc00x',
        '\u202e',
        '😀',
      ],
      ...["' or 1=1; --", '../../etc/passwd', '%00', '{{7*7}}', '<script>', '2026-02-30T00:00:00Z', 'null'],
      ...[[], {}, [[]], [null], deep(10), deep(40), dug, Array.from({ length: 600 }, () => 'x')],
      JSON.parse('{"__proto__": {"admin": true}}') as Json,
      JSON.parse('{"constructor": {"prototype": {"admin": true}}}') as Json,
      { $ref: '#' },
    ),
    fc.constantFrom<Json>(...ids),
    fc.uuid(),
    fc.string({ unit: 'binary', maxLength: 20 }),
    fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>,
  );

const strangeName = fc.constantFrom(
  '__proto__',
  'constructor',
  'toString',
  '',
  'x'.repeat(5_000),
  '\u0000',
  '\ud800',
  'Ünï',
);

/** One change at some place of a body. */
type Change = (value: Json) => Json;

const put = (object: JsonObject, name: string, value: Json): JsonObject => {
  const changed = { ...object };
  Object.defineProperty(changed, name, { value, enumerable: true, configurable: true, writable: true });
  return changed;
};

/** Changes a random member at a random depth. */
export function changes(ids: readonly string[]): fc.Arbitrary<Change> {
  return fc
    .record({
      way: fc.nat(),
      kind: fc.constantFrom('replace', 'drop', 'add', 'strange', 'whole', 'wrap'),
      value: hostileValue(ids),
      name: strangeName,
    })
    .map(({ way, kind, value, name }) => {
      const change = (at: Json, left: number): Json => {
        if (kind === 'whole' && left % 7 === 0) return value;
        if (Array.isArray(at)) {
          if (at.length === 0 || kind === 'add') return [...at, value];
          const index = left % at.length;
          return at.map((item, n) => (n === index ? next(item, left) : item));
        }
        if (typeof at !== 'object' || at === null) return kind === 'wrap' ? [at] : value;
        if (kind === 'add') return put(at, 'no_such_member', value);
        if (kind === 'strange') return put(at, name, value);
        const names = Object.keys(at);
        if (names.length === 0) return put(at, name, value);
        const chosen = names[left % names.length] as string;
        if (kind === 'drop') return Object.fromEntries(Object.entries(at).filter(([one]) => one !== chosen));
        return put(at, chosen, next(at[chosen] as Json, left));
      };
      const next = (at: Json, left: number): Json =>
        typeof at === 'object' && at !== null && left % 2 === 1
          ? change(at, left >> 1)
          : kind === 'wrap'
            ? [at]
            : value;
      return (value_: Json) => change(value_, way);
    });
}

/** Bodies that are not JSON, or malformed. */
export const brokenBody = (good: string): fc.Arbitrary<Buffer> =>
  fc.oneof(
    fc.constantFrom(
      ...['', ' ', '{', '[]', 'null', '"x"', '1', '{"a":1,"a":2}', '{"a":1}{}', '\ufeff{}', '{"a":NaN}', "{'a':1}"].map(
        (t) => Buffer.from(t),
      ),
      Buffer.from(good, 'utf16le'),
      Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
      Buffer.from(`${good.slice(0, -1)},"__proto__":{"a":1}}`),
      Buffer.from(`${good.slice(0, -1)},"a":"${'x'.repeat(270_000)}"}`),
      Buffer.from(`{"a":${'['.repeat(100_000)}`),
      Buffer.from(`{"a":${'['.repeat(33)}${']'.repeat(33)}}`),
      Buffer.from('{"a":1e999}'),
    ),
    fc.nat(Math.max(0, good.length - 1)).map((length) => Buffer.from(good.slice(0, length))),
    fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
  );

/** Replacements for a text in a path. */
export const pathText = (ids: readonly string[]): fc.Arbitrary<string> =>
  fc.oneof(
    fc.constantFrom(...ids),
    fc.uuid(),
    fc.constantFrom(
      ...[
        '',
        '.',
        '..',
        '%2e%2e',
        '..%2f..%2fetc',
        '%00',
        '%',
        '%zz',
        '%F0%28%8C%28',
        'null',
        '{id}',
        '__proto__',
        '*',
        '-1',
      ],
      ...[
        'constructor',
        'a%20b',
        'a+b',
        ';x=1',
        'x'.repeat(5_000),
        '%C3%28',
        '%ed%a0%80',
        '%E2%80%AE',
        'Maintenance_Mode',
      ],
    ),
    fc.string({ maxLength: 12 }).map((text) => encodeURIComponent(text.toWellFormed())),
  );

export const queryText: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    ...[
      '0',
      '-1',
      '201',
      '50',
      '1e2',
      '1.5',
      '999999999999999999999',
      'ten',
      '',
      'true',
      'TRUE',
      'null',
      '%00',
      '%',
      '%zz',
    ],
    ...['x'.repeat(600), 'eyJhIjoxfQ', 'AAAA', '%ed%a0%80', '__proto__', '[]', '2026-01-01', '%F0%9F%98%80'],
  ),
  fc.uuid(),
  fc.base64String({ maxLength: 80 }).map(encodeURIComponent),
  fc.string({ maxLength: 12 }).map((text) => encodeURIComponent(text.toWellFormed())),
);

/** Additional headers; for duplicates the last one counts. */
export const strangeHeaders: fc.Arbitrary<Record<string, string>> = fc
  .array(
    fc.constantFrom<[string, string]>(
      ['content-type', 'text/plain'],
      ['content-type', 'application/json; charset=utf-16'],
      ['content-type', 'application/x-www-form-urlencoded'],
      ['content-type', ''],
      ['content-type', 'application/json;;;'],
      ['content-encoding', 'gzip'],
      ['idempotency-key', 'a b'],
      ['idempotency-key', ''],
      ['idempotency-key', 'k'.repeat(256)],
      ['idempotency-key', 'clé'],
      ['idempotency-key', 'one-and-the-same'],
      ['x-request-id', 'not a uuid'],
      ['x-request-id', '00000000-0000-0000-0000-000000000000'],
      ['authorization', 'Basic YTpi'],
      ['authorization', 'Bearer'],
      ['authorization', `Bearer ${'x'.repeat(9_000)}`],
      ['authorization', 'Bearer eyJhbGciOiJub25lIn0.e30.'],
      ['authorization', 'Bearer tk_abcdefgh_0123456789012345678901234567890123456789012'],
      ['x-api-key', 'tk_'],
      ['x-api-key', 'é'],
      ['cookie', 'twinkeep_session=junk; twinkeep_csrf=junk'],
      ['cookie', '=; ;;__proto__=1'],
      ['x-csrf-token', 'junk'],
      ['if-match', '*'],
      ['if-match', 'W/"1"'],
      ['if-match', '"99999999999999999999"'],
      ['accept', 'application/xml'],
      ['accept-encoding', 'br;q=2'],
      ['x-forwarded-for', "'; drop table users"],
      ['x-forwarded-host', 'evil.example'],
      ['x-http-method-override', 'DELETE'],
      ['range', 'bytes=0-0'],
      ['origin', 'null'],
      ['expect', '100-continue'],
      ['x-handshake-verifier', 'x'.repeat(300)],
      ['traceparent', '00-zz-zz-zz'],
    ),
    { maxLength: 3 },
  )
  .map((pairs) => Object.fromEntries(pairs));
