import { describe, expect, it } from 'vitest';
import { isObject, jsonEqual } from '../../src/domain/json/value.ts';
import {
  applyReport,
  changesBetween,
  contains,
  EMPTY_TWIN,
  expectedState,
  MAX_STATE_BYTES,
  namedProperties,
  paramOf,
  preview,
  type Twin,
  twinOf,
} from '../../src/domain/twin.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { expectReached, fc } from '../support/properties.ts';

const keys = fc.constantFrom('a', 'b', 'on', 'ü', '__proto__', 'constructor', '');
const leaf = fc.oneof(fc.constant(null), fc.boolean(), fc.integer(), fc.string({ maxLength: 4 }));
const { object } = fc.letrec<{ value: Json; object: JsonObject }>((tie) => ({
  value: fc.oneof({ maxDepth: 3 }, leaf, tie('object'), fc.array(tie('value'), { maxLength: 3 })) as fc.Arbitrary<Json>,
  object: fc
    .array(fc.tuple(keys, tie('value')), { maxLength: 4 })
    .map((entries) => Object.fromEntries(entries) as JsonObject) as fc.Arbitrary<JsonObject>,
}));

/** The algorithm of RFC 7396, section 2. */
function reference(target: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const result = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) result.delete(name);
    else result.set(name, reference(result.get(name), value));
  }
  return Object.fromEntries(result);
}

/** A typical report: the complete known state, with or without changes. */
const reportOn = (state: JsonObject): fc.Arbitrary<JsonObject> =>
  fc.oneof(
    object,
    fc.tuple(object, fc.boolean()).map(([changes, more]) => {
      const named = Object.entries(changes).filter(([name]) => more || Object.hasOwn(state, name));
      return parse(JSON.stringify(Object.fromEntries([...Object.entries(state), ...named])));
    }),
  );

function merged(twin: Twin, report: JsonObject, full?: boolean): Twin {
  const reported = applyReport(twin, report, full);
  if (!reported.ok) throw new Error(reported.code);
  return reported.twin;
}

const deep = (levels: number, inmost: Json = 1): Json => (levels === 0 ? inmost : { a: deep(levels - 1, inmost) });
const parse = (text: string) => JSON.parse(text) as JsonObject;

describe('a report', () => {
  it('is merged as in RFC 7396, mutates nothing and keeps the size exact', () => {
    fc.assert(
      fc.property(object, fc.array(object, { maxLength: 4 }), (first, reports) => {
        let twin = twinOf(first);
        for (const report of reports) {
          const before = JSON.stringify([twin.state, report]);
          const next = merged(twin, report);
          expect(JSON.stringify([twin.state, report])).toBe(before);
          expect(jsonEqual(next.state, reference(twin.state, report))).toBe(true);
          expect(next.bytes).toBe(Buffer.byteLength(JSON.stringify(next.state)));
          twin = next;
        }
      }),
      { numRuns: 500 },
    );
  });

  it('that contains the whole state becomes the state, or leaves it unchanged; any other does not', () => {
    const became = { itself: 0, asItWas: 0, merged: 0 };
    fc.assert(
      fc.property(
        object.chain((state) => fc.tuple(fc.constant(state), reportOn(state))),
        ([state, report]) => {
          const twin = twinOf(state);
          const next = applyReport(twin, report);
          if (!next.ok) throw new Error(next.code);
          const expected = reference(state, report);
          expect(jsonEqual(next.twin.state, expected)).toBe(true);
          expect(next.twin.bytes).toBe(Buffer.byteLength(JSON.stringify(next.twin.state)));
          expect(next.coversState).toBe(jsonEqual(report, expected));
          if (jsonEqual(state, report)) became.asItWas += 1;
          else if (next.coversState) {
            expect(next.twin.state).toBe(report);
            became.itself += 1;
          } else {
            expect(next.twin.state).not.toBe(report);
            became.merged += 1;
          }
        },
      ),
      { numRuns: 1_000 },
    );
    expectReached(() => expect(Math.min(...Object.values(became))).toBeGreaterThan(20));
  });

  it.each([
    ['{"a":1,"b":{"c":[{"d":null}]}}', '{"a":1,"b":{"c":[{"d":null}]}}', true],
    ['{"a":1,"b":2}', '{"b":3,"a":1}', true],
    ['{"a":1,"b":2}', '{"a":3,"b":2,"c":4}', true],
    ['{"a":1,"b":{"c":1}}', '{"a":1,"b":{"c":2}}', true],
    ['{"a":1,"b":2}', '{"a":3,"b":{}}', true],
    ['{}', '{"a":{"b":1}}', true],
    ['{"a":1,"b":2}', '{"a":3}', false],
    ['{"a":1,"b":2}', '{"a":3,"toString":2}', false],
    ['{"a":1,"b":{"c":1,"d":1}}', '{"a":1,"b":{"c":2}}', false],
    ['{"a":1}', '{"a":2,"b":null}', false],
    ['{"a":1}', '{"a":1,"b":null}', false],
    ['{"a":1}', '{"a":1,"b":{"c":null}}', false],
    ['{"a":1,"__proto__":2}', '{"a":1,"constructor":2}', false],
    ['{"a":1,"__proto__":2}', '{"a":1,"__proto__":3}', true],
  ])('on %s of %s contains the whole state: %s', (state, report, coversState) => {
    expect(applyReport(twinOf(parse(state)), parse(report))).toMatchObject({ ok: true, coversState });
  });

  it('that is full is accepted with its measured size', () => {
    const report = parse('{"a":"é"}');
    const { length } = Buffer.from(JSON.stringify(report));
    expect(applyReport(EMPTY_TWIN, report, true, length)).toEqual(applyReport(EMPTY_TWIN, report, true));
    expect(applyReport(EMPTY_TWIN, report, true, MAX_STATE_BYTES + 1)).toEqual({ ok: false, code: 'STATE_TOO_LARGE' });
  });

  it.each([
    ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
    ['{"a":"b"}', '{"a":null}', '{}'],
    ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
    ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
    ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
    ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
    ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
    ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
    ['{"a":1}', '{"a":{}}', '{"a":{}}'],
    ['{"a":[null]}', '{"a":[null,null]}', '{"a":[null,null]}'],
  ])('%s and %s give %s', (state, report, result) => {
    expect(merged(twinOf(parse(state)), parse(report)).state).toEqual(parse(result));
  });

  it('shares unchanged parts', () => {
    const state = { color: { hue: 1 }, list: [1], on: true };
    const next = merged(twinOf(state), { on: false }).state;
    expect(next.color).toBe(state.color);
    expect(next.list).toBe(state.list);
  });

  it('without effect returns the same object', () => {
    const state = { color: { hue: 1 }, on: true };
    expect(merged(twinOf(state), { on: true, color: { hue: 1 }, gone: null }).state).toBe(state);
  });

  it('can contain a property named __proto__, and changes no prototype', () => {
    const twin = merged(EMPTY_TWIN, parse('{"__proto__":{"admin":true},"a":1}'));
    expect(JSON.stringify(twin.state)).toBe('{"__proto__":{"admin":true},"a":1}');
    expect(Object.getPrototypeOf(twin.state)).toBe(Object.prototype);
    expect(JSON.stringify(merged(twin, parse('{"__proto__":{"admin":null}}')).state)).toBe('{"__proto__":{},"a":1}');
    expect(JSON.stringify(merged(twin, parse('{"__proto__":null}')).state)).toBe('{"a":1}');
  });

  it('replaces the whole state when it is full', () => {
    const report = { a: null, b: { c: null } };
    expect(merged(twinOf({ z: 1 }), report, true)).toEqual({ state: report, bytes: 25 });
  });

  it('is too large when the state would exceed 32 KiB of UTF-8, merged or full', () => {
    const room = MAX_STATE_BYTES - '{"a":1,"text":""}'.length;
    const full = merged(twinOf({ a: 1 }), { text: 'x'.repeat(room) });
    expect(full.bytes).toBe(MAX_STATE_BYTES);
    expect(applyReport(full, { a: 2 }).ok).toBe(true);
    expect(applyReport(full, { a: 22 })).toEqual({ ok: false, code: 'STATE_TOO_LARGE' });
    expect(applyReport(full, { b: 1, text: null }).ok).toBe(true);
    expect(applyReport(EMPTY_TWIN, { text: 'é'.repeat(room / 2 + 10) }, true).ok).toBe(false);
  });

  it('is refused when it is nested deeper than 32 levels, merged or full', () => {
    for (const full of [false, true]) {
      expect(applyReport(EMPTY_TWIN, deep(32) as JsonObject, full).ok).toBe(true);
      expect(applyReport(EMPTY_TWIN, deep(33) as JsonObject, full)).toEqual({ ok: false, code: 'PAYLOAD_INVALID' });
      expect(applyReport(EMPTY_TWIN, deep(5_000) as JsonObject, full).ok).toBe(false);
    }
  });

  it('is refused when merging makes an existing state deeper than 32 levels', () => {
    const twin = twinOf(deep(32) as JsonObject);
    expect(applyReport(twin, deep(32, {}) as JsonObject)).toEqual({ ok: false, code: 'PAYLOAD_INVALID' });
    expect(applyReport(twin, deep(32, [[]]) as JsonObject)).toEqual({ ok: false, code: 'PAYLOAD_INVALID' });
    expect(applyReport(twin, deep(32, 2) as JsonObject).ok).toBe(true);
  });
});

describe('contains', () => {
  it('holds for the state itself and for every part of it', () => {
    fc.assert(
      fc.property(object, object, (state, more) => {
        expect(contains(state, state)).toBe(true);
        expect(contains(Object.fromEntries([...Object.entries(more), ...Object.entries(state)]) as Json, state)).toBe(
          true,
        );
      }),
    );
  });

  it.each<[Json, Json, boolean]>([
    [{ on: true, level: 5 }, { on: true }, true],
    [{ on: 1 }, { on: true }, false],
    [{ a: { b: 1, c: 2 } }, { a: { c: 2 } }, true],
    [{ a: { b: 1 } }, { a: { c: 2 } }, false],
    [{ a: 1 }, { a: {} }, false],
    [{ a: [] }, { a: {} }, false],
    [{ a: [1, 2] }, { a: [1] }, false],
    [{ a: [{ b: 1, c: 2 }] }, { a: [{ b: 1 }] }, false],
    [{ a: 21 }, { a: 21.0 }, true],
    [{}, {}, true],
    [{}, { toString: null }, false],
    [{ a: null }, { a: null }, true],
    [{}, { a: null }, false],
  ])('%j holds %j: %s', (state, expected, holds) => {
    expect(contains(state, expected)).toBe(holds);
  });
});

describe('the expected state', () => {
  it('is the template with its parameters substituted', () => {
    const template = { brightness: { $param: 'level' }, on: true, scene: { name: { $param: 'name' }, tags: ['x'] } };
    expect(expectedState(template, { level: 80, name: 'evening' })).toEqual({
      brightness: 80,
      on: true,
      scene: { name: 'evening', tags: ['x'] },
    });
  });

  it('omits members that depend on a missing parameter', () => {
    const template = {
      color: { hue: { $param: 'h' }, saturation: { $param: 's' } },
      pair: [{ $param: 'h' }, { $param: 's' }],
    };
    expect(expectedState(template, { h: 10 })).toEqual({ color: { hue: 10 } });
    expect(expectedState(template, { h: 10, s: 5 })).toEqual({ color: { hue: 10, saturation: 5 }, pair: [10, 5] });
  });

  it('is null without a template, and when nothing remains to expect', () => {
    expect(expectedState(undefined, { a: 1 })).toBeNull();
    expect(expectedState({ a: { $param: 'a' } }, {})).toBeNull();
    expect(expectedState({ $param: 'a' }, { a: 5 })).toBeNull();
    expect(expectedState({ a: { $param: 'toString' } }, {})).toBeNull();
  });

  it('treats only an object with the single string property $param as a parameter', () => {
    expect(paramOf({ $param: 'a' })).toBe('a');
    for (const node of [{ $param: 1 }, { $param: 'a', b: 1 }, {}, [], '$param', null])
      expect(paramOf(node)).toBeUndefined();
  });
});

describe('a preview', () => {
  const capability = { supportsDryRun: true, expectedState: { locked: false, mode: { $param: 'mode' } } };

  it('shows the named properties of the current state, the future state and the difference', () => {
    expect(preview(capability, { locked: true, mode: 'day', battery: 3 }, { mode: 'day' })).toEqual({
      current: { locked: true, mode: 'day' },
      expected: { locked: false, mode: 'day' },
      changes: { locked: { from: true, to: false } },
    });
  });

  it('names no property if the future state cannot be computed', () => {
    const unknown = { current: {}, expected: null, changes: null };
    expect(preview({ ...capability, supportsDryRun: false }, { locked: true }, {})).toEqual(unknown);
    expect(preview({ supportsDryRun: true }, { locked: true }, {})).toEqual(unknown);
  });

  it('of an earlier version loses the properties that it does not name', () => {
    const stored = { current: { locked: true, pin: 1 }, expected: { locked: false, __proto__: null }, changes: null };
    expect(namedProperties(stored as never)).toEqual({ ...stored, current: { locked: true } });
    expect(namedProperties({ current: { pin: 1 }, expected: null, changes: null }).current).toEqual({});
  });

  it('starts from null for a property that was never reported', () => {
    expect(changesBetween({}, { on: true, none: null })).toEqual({
      on: { from: null, to: true },
      none: { from: null, to: null },
    });
  });

  it('shows no change if the state already contains the expected state', () => {
    fc.assert(
      fc.property(object, object, (state, expected) => {
        expect(Object.keys(changesBetween(state, expected)).length === 0).toBe(contains(state, expected));
      }),
    );
  });
});
