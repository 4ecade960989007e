import { describe, expect, it } from 'vitest';
import {
  automaticManifest,
  capabilities,
  categories,
  categoryNames,
  categoryOf,
  isRestricted,
  knownAction,
  similarAction,
} from '../../src/domain/capability-registry.ts';
import { checkParams, schemaErrors } from '../../src/domain/param-schema.ts';
import { paramOf } from '../../src/domain/twin.ts';
import type { Json } from '../../src/domain/values.ts';

const classOf = (action: string) => knownAction(action)?.safetyClass;
const paramsIn = (node: Json): string[] => {
  const param = paramOf(node);
  if (param !== undefined) return [param];
  return typeof node === 'object' && node !== null ? Object.values(node).flatMap(paramsIn) : [];
};

describe('the registry', () => {
  it('has nine categories and at least 40 different actions, numbered from 1', () => {
    expect(categoryNames).toEqual([
      'light',
      'switch',
      'climate',
      'lock',
      'cover',
      'valve',
      'sensor',
      'appliance',
      'controller',
    ]);
    const actions = capabilities().map(({ action }) => action);
    expect(actions.length).toBeGreaterThanOrEqual(40);
    expect(new Set(actions).size).toBe(actions.length);
    expect(capabilities().map(({ id }) => id)).toEqual(actions.map((_, index) => index + 1));
  });

  it('gives every category the maintenance actions, and every action at least one category', () => {
    const listed = Object.values(categories());
    for (const actions of listed) {
      expect(actions.slice(-5)).toEqual(['reboot', 'factory_reset', 'update_firmware', 'rotate_key', 'revoke']);
      expect(new Set(actions).size).toBe(actions.length);
    }
    expect(new Set(listed.flat())).toEqual(new Set(capabilities().map(({ action }) => action)));
  });

  it('finds an action regardless of the case and separators of its name, and no two share such a name', () => {
    for (const { action } of capabilities()) {
      const spellings = [action, action.toUpperCase(), action.replaceAll('_', ''), ` ${action.replaceAll('_', ' ')} `];
      for (const spelling of spellings) expect(similarAction(spelling)?.action).toBe(action);
    }
    expect(similarAction('unlock_2')).toBeUndefined();
    expect(similarAction('__proto__')).toBeUndefined();
  });

  it('classifies harmful actions as critical, and actions of the protocol as restricted', () => {
    for (const action of ['unlock', 'open_valve', 'reboot', 'factory_reset', 'update_firmware']) {
      expect(classOf(action)).toBe('CRITICAL');
    }
    for (const action of ['turn_on', 'turn_off', 'set_brightness', 'set_temperature', 'open', 'close', 'lock']) {
      expect(classOf(action)).toBe('NORMAL');
    }
    expect(
      capabilities()
        .filter(({ action }) => isRestricted(action))
        .map(({ action }) => action),
    ).toEqual(['rotate_key', 'revoke']);
    expect(isRestricted('toString')).toBe(false);
    expect(knownAction('constructor')).toBeUndefined();
  });

  it('describes every action, with a schema of the supported subset and a template over its own parameters', () => {
    for (const { action, description, paramSchema, expectedState, supportsDryRun } of capabilities()) {
      expect(description, action).not.toBe('');
      expect(schemaErrors(paramSchema), action).toEqual([]);
      expect(paramSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect(supportsDryRun, action).toBe(expectedState !== undefined);
      const params = Object.keys(paramSchema.properties ?? {});
      expect(params, action).toEqual(expect.arrayContaining(paramsIn(expectedState ?? {})));
    }
  });

  it('bounds the parameters that the contract names', () => {
    const check = (action: string, params: Record<string, Json>) =>
      checkParams(knownAction(action)?.paramSchema ?? {}, params).length === 0;
    expect([0, 100].every((level) => check('set_brightness', { level }))).toBe(true);
    expect([-1, 101, 1.5].some((level) => check('set_brightness', { level }))).toBe(false);
    expect([5, 21.5, 35].every((celsius) => check('set_temperature', { celsius }))).toBe(true);
    expect([4.9, 35.1].some((celsius) => check('set_temperature', { celsius }))).toBe(false);
    expect(check('turn_on', {})).toBe(true);
    expect(check('set_color', { hue: 120 })).toBe(true);
    expect(check('update_firmware', {})).toBe(false);
    expect(check('update_firmware', { firmware_id: '01920000-0000-7000-8000-000000000001' })).toBe(true);
  });

  it('is immutable', () => {
    const unlock = capabilities().find(({ action }) => action === 'unlock');
    expect(() => Object.assign(unlock ?? {}, { safetyClass: 'NORMAL' })).toThrow(TypeError);
    expect(() => Object.assign(knownAction('unlock') ?? {}, { safetyClass: 'NORMAL' })).toThrow(TypeError);
    expect(() => Object.assign(knownAction('turn_on')?.expectedState ?? {}, { on: false })).toThrow(TypeError);
    categories().light.push('x');
    expect(categories().light).not.toContain('x');
  });
});

describe('an automatic manifest', () => {
  it.each([
    ['light', 'light'],
    ['smart_light', 'light'],
    ['acme-smart-lock', 'lock'],
    ['my_home-valve', 'valve'],
    ['Smart_Switch', 'switch'],
    ['esp32', null],
    ['light_', 'light'],
    ['lightbulb', null],
    ['smart switch', 'switch'],
    ['esp32-relay', 'switch'],
    ['ESP32.Relay', 'switch'],
    ['SmartLight', 'light'],
    ['doorLockSensor', 'sensor'],
    ['light switch (kitchen)', 'switch'],
    ['a microcontroller board', 'controller'],
    ['LIGHT', 'light'],
    ['relays', null],
    ['constructor', null],
    ['x_constructor', null],
    ['__proto__', null],
    ['', null],
  ])('of a %j is that of the category %s', (deviceType, category) => {
    expect(categoryOf(deviceType)).toBe(category);
    const manifest = automaticManifest({ deviceId: 'd', tenantId: 't', deviceType });
    expect(manifest?.category ?? null).toBe(category);
  });

  it('has version 1, numbers the actions of the category from 1, and is not marked as the tenant’s', () => {
    const manifest = automaticManifest({ deviceId: 'd', tenantId: 't', deviceType: 'lock' });
    expect(manifest).toMatchObject({ deviceId: 'd', tenantId: 't', version: 1, own: false });
    expect(manifest?.capabilities.map(({ action }) => action)).toEqual(categories().lock);
    expect(manifest?.capabilities.map(({ id }) => id)).toEqual(categories().lock.map((_, index) => index + 1));
  });

  it('shares its capabilities with all devices of the category', () => {
    const of = (deviceId: string) => automaticManifest({ deviceId, tenantId: 't', deviceType: 'lock' })?.capabilities;
    expect(of('a')).toBe(of('b'));
  });
});
