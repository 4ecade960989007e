import { describe, expect, it } from 'vitest';
import type { DeviceEvent } from '../../src/machines/device-types.ts';
import { DEVICE, manifest, refusalOf, registered, T0, TENANT, typesOf } from './samples.ts';

describe('a manifest', () => {
  const given = manifest(99, { deviceId: 'other', tenantId: 'other', category: 'switch', own: true });

  it('of the tenant replaces the automatic one, with the next version', () => {
    const driven = registered();
    expect(refusalOf(driven, { type: 'manifest.register', at: T0, manifest: given, expectedVersion: 0 })).toEqual({
      code: 'CONFLICT',
      detail: "The manifest's current version is 1.",
    });
    const step = driven.send({ type: 'manifest.register', at: T0, manifest: given, expectedVersion: 1 });
    expect(step.outputs).toEqual([
      { type: 'manifest.put', manifest: { ...given, deviceId: DEVICE, tenantId: TENANT, version: 2, own: true } },
    ]);
    expect(driven.context).toMatchObject({ fixed: { manifestVersion: 2, manifestOwn: true, category: 'switch' } });
    expect(refusalOf(driven, { type: 'manifest.register', at: T0, manifest: given, expectedVersion: 2 })).toEqual({
      code: 'CONFLICT',
      detail: 'The device already has a tenant manifest. Update it instead.',
    });
  });

  it('of a category replaces any, and can be replaced as one that the device had from the start', () => {
    const driven = registered();
    const adopted = { ...given, own: false };
    driven.send({ type: 'manifest.register', at: T0, manifest: given, expectedVersion: 1 });
    driven.send({ type: 'manifest.update', at: T0, manifest: adopted, expectedVersion: 2 });
    expect(driven.context).toMatchObject({ fixed: { manifestVersion: 3, manifestOwn: false, category: 'switch' } });
    driven.send({ type: 'manifest.register', at: T0, manifest: given, expectedVersion: 3 });
    expect(driven.context).toMatchObject({ fixed: { manifestVersion: 4, manifestOwn: true } });
  });

  it('is the first one if there was none', () => {
    const driven = registered({ manifest: null });
    driven.send({ type: 'manifest.register', at: T0, manifest: given, expectedVersion: 0 });
    expect(driven.context.fixed.manifestVersion).toBe(1);
  });

  it('that is weaker ends its change request in the same commit, by the confirmer', () => {
    const driven = registered();
    const change = { id: 'c', digest: 'd', weaker: ['x'], requestedBy: { kind: 'user' as const, id: 'u' } };
    const by = { kind: 'user' as const, id: 'v', person: true };
    const step = driven.send({
      ...{ type: 'manifest.register', at: T0, by, manifest: given, expectedVersion: 1, change },
    });
    expect(typesOf(step.outputs)).toEqual(['manifest.put', 'change.apply']);
    expect(step.outputs[1]).toEqual({ type: 'change.apply', changeId: 'c', by, at: T0 });
  });

  it('is replaced with its current version', () => {
    const driven = registered();
    const update = (expectedVersion: number) =>
      ({ type: 'manifest.update', at: T0, manifest: given, expectedVersion }) satisfies DeviceEvent;
    expect(refusalOf(driven, update(2))).toEqual({ code: 'CONFLICT', detail: "The manifest's current version is 1." });
    expect(typesOf(driven.send(update(1)).outputs)).toEqual(['manifest.put']);
    expect(driven.context).toMatchObject({ fixed: { manifestVersion: 2, manifestOwn: true } });
    expect(refusalOf(driven, update(1)).code).toBe('CONFLICT');
  });

  it('cannot be replaced if it does not exist', () => {
    const driven = registered({ manifest: null });
    const update: DeviceEvent = { type: 'manifest.update', at: T0, manifest: given, expectedVersion: 0 };
    expect(refusalOf(driven, update)).toEqual({ code: 'NOT_FOUND', detail: 'The device has no manifest yet.' });
  });
});
