import { describe, expect, it } from 'vitest';
import { MAX_PROPERTIES } from '../../src/domain/manifest-properties.ts';
import { readManifest } from '../../src/domain/tenant-manifest.ts';

const dim = {
  action: 'dim',
  paramSchema: { type: 'object', properties: { level: { type: 'integer' }, name: { type: 'string' }, any: {} } },
  expectedState: { lamp: { level: { $param: 'level' }, name: { $param: 'name' }, any: { $param: 'any' } }, on: true },
};

/** Messages by path. */
function errorsOf(properties: unknown, body: object = { capabilities: [dim] }): Record<string, string> {
  const outcome = readManifest({ ...body, properties });
  if (outcome.ok) return {};
  return Object.fromEntries((outcome.refusal.errors ?? []).map(({ path, message }) => [path, message]));
}

describe('properties of a manifest', () => {
  it('have labels, units and what the history keeps', () => {
    const properties = {
      'lamp.level': { label: 'Brightness of the lamp', unit: '%', history: 'change', deadband: 0.5 },
      'lamp.any': { history: 'change', deadband: 0 },
      door: { history: 'off' },
      'door.open': { label: 'Door' },
      'a\\.b': { history: 'every' },
      $telemetry: { history: 'off' },
      '\\$own': {},
    };
    expect(errorsOf(properties)).toEqual({});
    expect(errorsOf(properties, { category: 'light' })).toEqual({});
  });

  it.each<[string, unknown, Record<string, unknown>]>([
    [
      'a negative deadband',
      { a: { history: 'change', deadband: -1 } },
      { 'properties.a.deadband': 'must be at least 0' },
    ],
    [
      'a deadband that is no number',
      { a: { history: 'change', deadband: '1' } },
      { 'properties.a.deadband': 'must be a number' },
    ],
    [
      'an infinite deadband',
      { a: { history: 'change', deadband: Infinity } },
      { 'properties.a.deadband': expect.any(String) },
    ],
    ['a deadband without changes', { a: { deadband: 1 } }, { 'properties.a.deadband': 'requires "history": "change"' }],
    [
      'a deadband of a text',
      { 'lamp.name': { history: 'change', deadband: 1 } },
      {
        'properties.lamp.name.deadband': "is for numbers: the action 'dim' sets the property to another type (string)",
      },
    ],
    [
      'a deadband of a boolean',
      { on: { history: 'change', deadband: 1 } },
      { 'properties.on.deadband': "is for numbers: the action 'dim' sets the property to another type (boolean)" },
    ],
    [
      'another mode',
      { a: { history: 'sometimes' } },
      { 'properties.a.history': 'must be one of "every", "change", "off"' },
    ],
    [
      'a mode below one that is off',
      { lamp: { history: 'off' }, 'lamp.level': { history: 'change' } },
      { 'properties.lamp.level.history': "must be off: the history of 'lamp' is, with all below it" },
    ],
    [
      'a reserved name',
      { $mine: {} },
      { 'properties.$mine': expect.stringContaining('only $telemetry begins with one') },
    ],
    ['an unknown member', { a: { colour: 'red' } }, { 'properties.a.colour': 'unknown field' }],
    [
      'a label of several lines',
      { a: { label: 'a\nb' } },
      { 'properties.a.label': 'must be 1 to 64 characters on one line' },
    ],
    [
      'a unit with white space',
      { a: { unit: 'k W' } },
      { 'properties.a.unit': 'must be 1 to 16 characters without white space' },
    ],
    [
      'too many',
      Object.fromEntries(Array.from({ length: MAX_PROPERTIES + 1 }, (_, n) => [`p${n}`, {}])),
      { properties: 'must have at most 100 properties' },
    ],
  ])('with %s are refused', (_, properties, expected) => {
    expect(errorsOf(properties)).toEqual(expected);
  });
});
