import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Capability } from '../../src/domain/manifest.ts';
import { checkParams, schemaErrors, WRITE_ONLY_MASK } from '../../src/domain/param-schema.ts';
import { makeSealer, SealBroken } from '../../src/domain/sealing.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import {
  commandParamsPlace,
  exposedParams,
  hasWriteOnly,
  maskParams,
  openParams,
  sealParams,
  stepParamsPlace,
} from '../../src/domain/write-only-params.ts';
import { fc } from '../support/properties.ts';

const MASK = { write_only: true };
const pin = { type: 'string', writeOnly: true };
const text = { type: 'string' };
const of = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({ type: 'object', properties, ...more });
const manifestOf = (...actions: [string, JsonObject][]) => ({
  capabilities: actions.map(
    ([action, paramSchema], n): Capability => ({
      ...{ id: n + 1, action, description: '', safetyClass: 'NORMAL', paramSchema, supportsDryRun: false },
    }),
  ),
});
const masked = (schema: JsonObject, params: JsonObject) => maskParams(manifestOf(['act', schema]), 'act', params);

describe('writeOnly', () => {
  it('marks parameters, members of parameters, items and other properties', () => {
    for (const schema of [
      of({ pin }),
      of({ a: of({ pin }) }),
      of({ list: { type: 'array', items: of({ pin }) } }),
      of({}, { additionalProperties: pin }),
    ]) {
      expect(schemaErrors(schema)).toEqual([]);
      expect(hasWriteOnly(schema)).toBe(true);
    }
    expect(hasWriteOnly(of({ a: of({ b: text }), pin: { ...pin, writeOnly: false } }))).toBe(false);
  });

  it('cannot mark all parameters at once, and is true or false', () => {
    const faults = (schema: JsonObject) => schemaErrors(schema).map(({ path }) => path);
    expect(faults(of({}, { writeOnly: true }))).toEqual(['paramSchema.writeOnly']);
    expect(faults(of({ pin: { writeOnly: 'yes' } }))).toEqual(['paramSchema.properties.pin.writeOnly']);
  });

  it('does not change which values are valid, except that the placeholder is none', () => {
    expect(checkParams(of({ pin }), { pin: '1234' })).toEqual([]);
    expect(checkParams(of({ pin: { writeOnly: true } }), { pin: MASK })).toMatchObject([{ path: 'params.pin' }]);
    expect(checkParams(of({ pin: {} }), { pin: MASK })).toEqual([]);
  });
});

describe('parameters as they are stored and shown', () => {
  it('are the same object without a marked one', () => {
    const params = { level: 4 };
    expect(masked(of({ level: {} }), params)).toBe(params);
    expect(maskParams(null, 'act', params)).toBe(params);
    expect(maskParams(manifestOf(['act', of({})]), 'other', params)).toBe(params);
  });

  it.each<[string, JsonObject, JsonObject, JsonObject]>([
    ['a parameter', of({ pin, slot: {} }), { pin: '1', slot: 2 }, { pin: MASK, slot: 2 }],
    ['a whole object', of({ key: of({}, { writeOnly: true }) }), { key: { a: 1 } }, { key: MASK }],
    ['a member', of({ a: of({ pin, b: text }) }), { a: { pin: '1', b: 'x' } }, { a: { pin: MASK, b: 'x' } }],
    ['items', of({ l: { items: pin } }), { l: ['1', '2'] }, { l: [MASK, MASK] }],
    ['members of items', of({ l: { items: of({ pin }) } }), { l: [{ pin: '1' }, {}] }, { l: [{ pin: MASK }, {}] }],
    ['other properties', of({}, { additionalProperties: pin }), { x: '1', y: '2' }, { x: MASK, y: MASK }],
    ['a value of another type', of({ a: of({ pin }) }), { a: '1234' }, { a: MASK }],
    ['an array in place of an object', of({ a: of({ pin }) }), { a: ['1234'] }, { a: MASK }],
    ['an unknown name beside it', of({ pin }), { pni: '1' }, { pni: MASK }],
    ['null', of({ pin }), { pin: null }, { pin: MASK }],
  ])('mask %s', (_, schema, params, shown) => {
    const before = structuredClone(params);
    expect(masked(schema, params)).toEqual(shown);
    expect(params).toEqual(before);
  });

  it('keep a member that is called __proto__', () => {
    const params = JSON.parse('{"__proto__": "1234", "slot": 1}') as JsonObject;
    const shown = masked(of({ pin, slot: {} }), params);
    expect(JSON.stringify(shown)).toBe('{"__proto__":{"write_only":true},"slot":1}');
  });

  it('are masked as a whole for an unknown action of a device that has marked ones', () => {
    expect(maskParams(manifestOf(['act', of({ pin })]), 'atc', { pin: '1', slot: 2 })).toEqual({
      pin: MASK,
      slot: MASK,
    });
  });

  it('are masked as a whole for an unknown action of a device that had marked ones, or may have had', () => {
    const afterRemoval = (paramSchema: JsonObject | null) => ({
      ...manifestOf(['wave', of({})]),
      removed: [{ action: 'act', safetyClass: 'NORMAL' as const, supportsDryRun: false, paramSchema }],
    });
    const params = { pin: '1' };
    expect(maskParams(afterRemoval(of({ pin })), 'act', params)).toEqual({ pin: MASK });
    expect(maskParams(afterRemoval(null), 'other', params)).toEqual({ pin: MASK });
    expect(maskParams(afterRemoval(of({ pin: text })), 'act', params)).toBe(params);
    expect(maskParams(afterRemoval(of({ pin })), 'wave', params)).toBe(params);
  });

  it('never contain a value of a marked parameter, whatever is given', () => {
    const schema = of({ pin, a: of({ pin, b: text }), l: { items: of({ pin }) } }, { required: ['pin'] });
    const secret = fc.constant('CANARY');
    const value: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        secret,
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom('pin', 'a', 'l', 'x'), tie('value'), { maxKeys: 4 }),
      ),
    })).value;
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom('pin', 'a', 'l', 'x'), value), (params) => {
        expect(JSON.stringify(masked(schema, params))).not.toContain('CANARY');
      }),
    );
  });
});

describe('a later schema', () => {
  it.each<[string, JsonObject, JsonObject | null, string[]]>([
    ['the same', of({ pin }), of({ pin }), []],
    ['without the mark', of({ pin }), of({ pin: text }), ['pin']],
    ['without the parameter', of({ pin }), of({}), ['pin']],
    ['with the whole object marked', of({ a: of({ pin }) }), of({ a: { writeOnly: true } }), []],
    ['with another type', of({ a: of({ pin }) }), of({ a: text }), ['a.pin']],
    ['with a mark on other properties', of({ pin }), of({}, { additionalProperties: pin }), []],
    [
      'without the mark in items',
      of({ l: { items: of({ pin }) } }),
      of({ l: { items: of({ pin: {} }) } }),
      ['l[].pin'],
    ],
    ['with more marks', of({ a: text }), of({ a: pin }), []],
    ['that is not known', of({}, { additionalProperties: pin }), null, ['*']],
  ])('%s exposes what it no longer marks', (_, before, after, exposed) => {
    expect(exposedParams(before, after)).toEqual(exposed);
  });
});

describe('sealed parameters', () => {
  const sealer = makeSealer({ current: randomBytes(32) });
  const params = { pin: '7391', slot: 1 };

  it('open for their command, step or compensation alone', () => {
    const places = [
      commandParamsPlace('c1'),
      commandParamsPlace('c2'),
      stepParamsPlace('p', 's', 'step'),
      stepParamsPlace('p', 's', 'compensation'),
    ];
    for (const place of places) {
      const sealed = sealParams(sealer, params, place);
      expect(sealed).not.toContain('7391');
      for (const other of places) {
        if (other === place) expect(openParams(sealer, sealed, other)).toEqual(params);
        else expect(() => openParams(sealer, sealed, other)).toThrow(SealBroken);
      }
    }
  });

  it('have a placeholder that cannot be changed', () => {
    expect(Object.isFrozen(WRITE_ONLY_MASK)).toBe(true);
  });
});
