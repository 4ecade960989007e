import { describe, expect, it } from 'vitest';
import { actionsByCategory } from '../../src/domain/capability-actions.ts';
import { capabilities } from '../../src/domain/capability-registry.ts';
import { isUnit, nameWithoutUnit, paramUnits, propertyUnits, seriesUnit, unitInName } from '../../src/domain/units.ts';
import type { JsonObject } from '../../src/domain/values.ts';

const number = (unit?: string): JsonObject => ({ type: 'number', ...(unit !== undefined && { unit }) });

describe('units', () => {
  it('are short texts without white space', () => {
    expect(['W', 'Wh', '°C', '%', 'm³/h', 'x'.repeat(16)].every(isUnit)).toBe(true);
    expect(['', ' ', 'a b', 'x'.repeat(17), 'a\u200bb', 'a\n', 1, null].some(isUnit)).toBe(false);
  });

  it('of parameters are in their schemas', () => {
    const paramSchema = { type: 'object', properties: { level: number('%'), speed: number(), bad: number('a b') } };
    expect([...paramUnits({ paramSchema })]).toEqual([['level', '%']]);
  });

  it('of properties follow from the expected state, and are listed for the others', () => {
    const paramSchema = { type: 'object', properties: { hue: number('°'), level: number('%') } };
    const expectedState = { color: { hue: { $param: 'hue' } }, brightness: { $param: 'level' }, on: true };
    const units = propertyUnits([
      { paramSchema, expectedState, units: { power_w: 'W' } },
      { paramSchema: {}, units: { brightness: 'lx' } },
    ]);
    const named = propertyUnits([{ paramSchema: {}, units: { power_w: 'W', 'a.b': '%' } }], {
      ...{ power_w: { unit: 'kW' }, 'a\\.b': { unit: 'lx' }, label: {} },
    });
    expect(Object.fromEntries(named)).toEqual({ power_w: 'kW', 'a.b': 'lx' });
    expect(Object.fromEntries(units)).toEqual({ 'color.hue': '°', brightness: 'lx', power_w: 'W' });
  });

  it('of series are those of the manifest by their path, and known for telemetry', () => {
    const units = propertyUnits([], { 'a\\.b': { unit: 'lx' }, '$telemetry.battery': { unit: 'V' } });
    expect(
      ['a\\.b', '$telemetry.battery', '$telemetry.rssi', 'power_w', 'x'].map((one) => seriesUnit(one, units)),
    ).toEqual([...['lx', 'V', 'dBm', 'W', undefined]]);
    expect(seriesUnit('$telemetry.free_heap')).toBe('B');
  });

  it('are read from the end of a name', () => {
    expect(['power_w', 'energy_wh', 'auto_off_s', 'target_celsius', 'meter.rate_hz'].map(unitInName)).toEqual([
      ...['W', 'Wh', 's', '°C', 'Hz'],
    ]);
    expect(['w', 'seconds', 'celsius', 'constructor', 'a_constructor'].map(unitInName)).toEqual(
      Array.from({ length: 5 }),
    );
    expect(['power_w', 'child_lock', 'w'].map(nameWithoutUnit)).toEqual(['power', 'child_lock', 'w']);
  });
});

describe('the registry', () => {
  it('has a unit for every number with a quantity', () => {
    const missing = capabilities().flatMap((capability) => {
      const units = paramUnits(capability);
      const properties = (capability.paramSchema.properties ?? {}) as Record<string, JsonObject>;
      return Object.entries(properties)
        .filter(([name, { type, minimum }]) => (type === 'integer' || minimum !== undefined) && !units.has(name))
        .map(([name]) => `${capability.action}.${name}`);
    });
    expect(missing).toEqual([]);
  });

  it('has the units of what devices of a category report', () => {
    const of = (category: keyof typeof actionsByCategory) =>
      Object.fromEntries(propertyUnits(actionsByCategory[category]));
    expect(of('light')).toMatchObject({ brightness: '%', color_temperature: 'K', power_w: 'W', energy_wh: 'Wh' });
    expect(of('climate')).toMatchObject({
      temperature: '°C',
      target_celsius: '°C',
      humidity: '%',
      target_humidity: '%',
    });
    expect(of('sensor')).toMatchObject({ temperature: '°C', humidity: '%', illuminance: 'lx' });
    expect(of('lock')).toEqual({ auto_lock_s: 's' });
  });
});
