import { describe, expect, it } from 'vitest';
import { cognition, withCognition, world } from './cognition-requests.ts';

withCognition();

describe('the world', () => {
  it('contains what a context may reach, and changes its hash with any part of it', async () => {
    const { body: cabin } = await world.otherTenant.call('POST', '/homes', { home_name: 'Cabin' });
    const { body: attic } = await world.otherTenant.call('POST', `/homes/${cabin.id}/rooms`, { name: 'Attic' });
    const placed = { home_id: cabin.id, room_id: attic.id, name: 'Lamp' };
    const { device_id: lamp } = await world.otherTenant.register(placed);
    const { device_id: thing } = await world.otherTenant.register({ home_id: cabin.id, device_type: 'thing' });
    const { device_id: gone } = await world.otherTenant.register({ home_id: cabin.id });
    await world.otherTenant.call('POST', `/device/${gone}/revoke`, {});
    await world.otherTenant.register();
    const requested = { tenantId: world.otherTenant.tenantId, homeId: cabin.id };
    const before = await cognition.world(requested);
    expect(before.devices.map(({ id }) => id)).toEqual([lamp, thing].sort());
    expect(before.devices.find(({ id }) => id === lamp)).toMatchObject({
      ...{ name: 'Lamp', type: 'smart_light', category: 'light', homeId: cabin.id, online: false, state: {} },
      ...{ room: { id: attic.id, name: 'Attic' }, manifest: { deviceId: lamp, version: 1 } },
    });
    expect(before.devices.find(({ id }) => id === thing)).toMatchObject({ room: null, manifest: null });
    expect(before.hash).toMatch(/^[0-9a-f]{64}$/);
    expect((await cognition.world(requested)).hash).toBe(before.hash);
    await world.otherTenant.report(lamp, { on: true });
    const after = await cognition.world(requested);
    expect(after.hash).not.toBe(before.hash);
    expect(await cognition.stateOf(world.otherTenant.tenantId, lamp)).toEqual({ on: true });
    expect(await cognition.stateOf(world.tenant.tenantId, lamp)).toBeNull();
    const all = await cognition.world({ tenantId: world.otherTenant.tenantId, homeId: null });
    expect(all.devices.length).toBeGreaterThan(2);
    const outsider = { tenantId: world.tenant.tenantId, homeId: null, deviceId: lamp };
    expect((await cognition.world(outsider)).devices).toEqual([]);
  });

  it('contains preferences and routines first, then the newest observations', async () => {
    for (const kind of ['observation', 'routine', 'preference']) {
      await world.otherTenant.call('POST', '/memories', { kind, content: `A ${kind}.` });
    }
    const key = async (...scopes: string[]) =>
      (await world.otherTenant.call('POST', '/auth/api-keys', { name: 'k', scopes })).body.key;
    const byKeys = [await key('write:memory'), await key('write:memory', 'execute:commands')];
    for (const token of byKeys) {
      for (const kind of ['observation', 'routine', 'preference'])
        await world.otherTenant.call('POST', '/memories', { kind, content: `A ${kind} of a key.` }, { token });
    }
    const read = await cognition.memories(world.otherTenant.tenantId);
    // Of a key that may send commands, only what it has observed; of the other one, nothing.
    expect(read.filter(({ content }) => content.includes('key')).map(({ kind }) => kind)).toEqual(['observation']);
    const kinds = (await cognition.memories(world.otherTenant.tenantId)).map(({ kind }) => kind);
    expect(kinds).toEqual(['preference', 'routine', 'observation', 'observation']);
  });
});
