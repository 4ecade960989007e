import { describe, expect, it } from 'vitest';
import { knownAction } from '../../src/domain/capability-registry.ts';
import { manifestBody, manifestUpdateBody, readManifest } from '../../src/domain/tenant-manifest.ts';

const read = (...capabilities: unknown[]) => readManifest({ capabilities });
const value = (outcome: ReturnType<typeof readManifest>) => (outcome.ok ? outcome.value : outcome.refusal);
const faults = (outcome: ReturnType<typeof readManifest>) =>
  outcome.ok ? [] : (outcome.refusal.errors ?? []).map(({ path }) => path);

describe('a manifest of a tenant', () => {
  it('is completed from the registry for known actions', () => {
    const known = knownAction('set_brightness');
    expect(value(read({ action: 'set_brightness' }))).toEqual([
      {
        id: 1,
        action: 'set_brightness',
        description: known?.description,
        safetyClass: 'NORMAL',
        paramSchema: known?.paramSchema,
        supportsDryRun: false,
      },
    ]);
    expect(value(read({ action: 'unlock' }))).toMatchObject([{ safetyClass: 'CRITICAL' }]);
  });

  it('otherwise has class NORMAL and no parameters', () => {
    expect(value(read({ action: 'dance' }, { action: 'sing', safetyClass: 'CRITICAL', description: 'La' }))).toEqual([
      {
        id: 1,
        action: 'dance',
        description: '',
        safetyClass: 'NORMAL',
        paramSchema: { type: 'object', properties: {}, additionalProperties: false },
        supportsDryRun: false,
      },
      expect.objectContaining({ id: 2, action: 'sing', safetyClass: 'CRITICAL', description: 'La' }),
    ]);
  });

  it('keeps its explicit values', () => {
    const given = {
      action: 'set_brightness',
      description: 'mine',
      safetyClass: 'CRITICAL',
      paramSchema: { properties: { pct: { type: 'number' } } },
      supportsDryRun: false,
      expectedState: { light: { pct: { $param: 'pct' }, on: true } },
      verify_within_s: 3,
    };
    expect(value(read(given))).toEqual([{ id: 1, ...given }]);
    const { supportsDryRun: _, ...rest } = given;
    expect(value(read(rest))).toMatchObject([{ supportsDryRun: true }]);
  });

  it('can raise the registry’s class of an action, never lower it', () => {
    expect(read({ action: 'turn_on', safetyClass: 'CRITICAL' }).ok).toBe(true);
    expect(read({ action: 'turn_on', safetyClass: 'RESTRICTED' }).ok).toBe(true);
    expect(read({ action: 'unlock', safetyClass: 'CRITICAL' }).ok).toBe(true);
    expect(faults(read({ action: 'unlock', safetyClass: 'NORMAL' }))).toEqual(['capabilities.0.safetyClass']);
    expect(faults(read({ action: 'reboot', safetyClass: 'NORMAL' }))).toEqual(['capabilities.0.safetyClass']);
  });

  it('must not name internal actions of the protocol', () => {
    expect(faults(read({ action: 'rotate_key' }))).toEqual(['capabilities.0.action']);
    expect(faults(read({ action: 'turn_on' }, { action: 'revoke', safetyClass: 'RESTRICTED' }))).toEqual([
      'capabilities.1.action',
    ]);
  });

  it('names each action once, and at most 100', () => {
    expect(faults(read({ action: 'a' }, { action: 'a' }))).toEqual(['capabilities.1.action']);
    const many = (count: number) => Array.from({ length: count }, (_, i) => ({ action: `a${i}` }));
    expect(read(...many(100)).ok).toBe(true);
    expect(faults(read(...many(101)))).toEqual(['capabilities']);
    expect(read().ok).toBe(true);
  });

  it('has templates over parameters of the same action only', () => {
    const paramSchema = { properties: { level: {} } };
    expect(read({ action: 'a', paramSchema, expectedState: { x: [{ $param: 'level' }] } }).ok).toBe(true);
    expect(faults(read({ action: 'a', paramSchema, expectedState: { x: { $param: 'other' } } }))).toEqual([
      'capabilities.0.expectedState',
    ]);
    expect(faults(read({ action: 'a', expectedState: { x: [{ y: { $param: 'toString' } }] } }))).toHaveLength(1);
    for (const [node, name] of [
      [{ $percent: 'level' }, '$percent'],
      [[{ y: { $ref: 'level' } }], '$ref'],
      [{ $param: 'level', and: 1 }, '$param'],
      [{ $param: 7 }, '$param'],
    ] as const) {
      expect(read({ action: 'a', paramSchema, expectedState: { x: node } })).toMatchObject({
        refusal: { errors: [{ path: 'capabilities.0.expectedState', message: expect.stringContaining(`'${name}'`) }] },
      });
    }
    expect(read({ action: 'a', paramSchema, expectedState: { price: '$5', a$: 1 } }).ok).toBe(true);
    expect(read({ action: 'set_brightness', expectedState: { b: { $param: 'level' } } }).ok).toBe(true);
    expect(
      faults(read({ action: 'a', paramSchema: { properties: [] }, expectedState: { b: { $param: 'x' } } })),
    ).toEqual(['capabilities.0.expectedState', 'capabilities.0.paramSchema.properties']);
  });

  it('has no template over a parameter that is or contains a writeOnly one', () => {
    const pin = { type: 'string', writeOnly: true };
    for (const level of [pin, { type: 'object', properties: { pin } }, { items: pin }]) {
      const paramSchema = { properties: { level, slot: {} } };
      expect(read({ action: 'a', paramSchema, expectedState: { x: { $param: 'slot' } } }).ok).toBe(true);
      expect(faults(read({ action: 'a', paramSchema, expectedState: { x: [{ $param: 'level' }] } }))).toEqual([
        'capabilities.0.expectedState',
      ]);
    }
  });

  it('has schemas of the supported subset', () => {
    expect(faults(read({ action: 'a', paramSchema: { properties: { p: { pattern: '^(a+)+$' } } } }))).toEqual([
      'capabilities.0.paramSchema.properties.p.pattern',
    ]);
  });

  it.each([
    [{}, 'capabilities'],
    [[], ''],
    [null, ''],
    [{ capabilities: {} }, 'capabilities'],
    [{ capabilities: [null] }, 'capabilities.0'],
    [{ capabilities: [{}] }, 'capabilities.0.action'],
    [{ capabilities: [{ action: '' }] }, 'capabilities.0.action'],
    [{ capabilities: [{ action: 'no spaces' }] }, 'capabilities.0.action'],
    [{ capabilities: [{ action: `a${'x'.repeat(64)}` }] }, 'capabilities.0.action'],
    [{ capabilities: [{ action: 'a', id: 4 }] }, 'capabilities.0.id'],
    [{ capabilities: [{ action: 'a', safetyClass: 'normal' }] }, 'capabilities.0.safetyClass'],
    [{ capabilities: [{ action: 'a', paramSchema: [] }] }, 'capabilities.0.paramSchema'],
    [{ capabilities: [{ action: 'a', expectedState: 'on' }] }, 'capabilities.0.expectedState'],
    [{ capabilities: [{ action: 'a', supportsDryRun: 1 }] }, 'capabilities.0.supportsDryRun'],
    [{ capabilities: [{ action: 'a', verify_within_s: 0 }] }, 'capabilities.0.verify_within_s'],
    [{ capabilities: [{ action: 'a', verify_within_s: 3_601 }] }, 'capabilities.0.verify_within_s'],
    [{ capabilities: [{ action: 'a', verify_within_s: 1.5 }] }, 'capabilities.0.verify_within_s'],
    [{ capabilities: [], category: 'toaster' }, 'category'],
    [{ capabilities: [], more: 1 }, 'more'],
    [{ capabilities: [], version: 1 }, 'version'],
  ])('%j is refused at %j', (body, path) => {
    expect(faults(readManifest(body))).toEqual([path]);
  });

  it('names the version it replaces when it is an update', () => {
    expect(manifestBody.safeParse({ capabilities: [], category: 'lock' }).success).toBe(true);
    expect(manifestUpdateBody.safeParse({ capabilities: [], version: 3 }).success).toBe(true);
    expect(manifestUpdateBody.safeParse({ capabilities: [] }).success).toBe(true);
    expect(manifestUpdateBody.safeParse({ capabilities: [], version: 0 }).success).toBe(false);
  });
});
