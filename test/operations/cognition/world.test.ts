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

  it('shows that a command may have changed a device since its last report', async () => {
    const { otherTenant: tenant } = world;
    const { device_id: lock } = await tenant.register({ device_type: 'lock', name: 'Gate' });
    const requested = { tenantId: tenant.tenantId, homeId: null, deviceId: lock };
    const read = async () => (await cognition.world(requested)).devices[0];
    const isOutdated = async () => (await read())?.stateOutdated;
    const send = async (action: string) =>
      (await tenant.call('POST', `/device/${lock}/command`, { action })).body.command_id;
    await tenant.connect(lock);
    await tenant.report(lock, { locked: true });
    expect(await isOutdated()).toBe(false);
    const before = (await cognition.world(requested)).hash;
    world.service.clock.advance(1_000);
    const unlock = await send('unlock');
    expect(await isOutdated()).toBe(false);
    await tenant.call('POST', `/confirmations/${unlock}/approve`);
    expect(await isOutdated()).toBe(true);
    expect((await cognition.world(requested)).hash).not.toBe(before);
    world.service.clock.advance(1_000);
    await tenant.report(lock, { battery: 50 });
    await tenant.acknowledge(lock, unlock, 'succeeded');
    expect([await isOutdated(), (await read())?.state]).toEqual([true, { locked: true, battery: 50 }]);
    await tenant.report(lock, { locked: false });
    expect(await isOutdated()).toBe(false);
    world.service.clock.advance(1_000);
    await tenant.acknowledge(lock, await send('lock'), 'succeeded');
    // The verification ends without a report.
    world.service.clock.advance(20_000);
    await world.service.runtime.timers.tick();
    expect(await isOutdated()).toBe(true);
    const other = await tenant.call('POST', `/device/${lock}/command`, { action: 'fly' });
    expect(other.body.code).toBe('ACTION_NOT_IN_MANIFEST');
    tenant.disconnect(lock);
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

  describe('of a device whose command', () => {
    const advance = (ms: number) => world.service.clock.advance(ms);
    const addLock = async () => {
      const { device_id: lock } = await world.otherTenant.register({ device_type: 'lock' });
      const requested = { tenantId: world.otherTenant.tenantId, homeId: null, deviceId: lock };
      return { lock, isOutdated: async () => (await cognition.world(requested)).devices[0]?.stateOutdated };
    };
    const send = async (device: string, action: string, more: object = {}) =>
      (await world.otherTenant.call('POST', `/device/${device}/command`, { action, ...more })).body.command_id;

    it('was executed after the last report, but requested before, is outdated until the next report', async () => {
      const { otherTenant: tenant, service } = world;
      const { lock, isOutdated } = await addLock();
      await tenant.connect(lock);
      await tenant.report(lock, { locked: true });
      const unlock = await send(lock, 'unlock');
      advance(10_000);
      await tenant.report(lock, { locked: true });
      advance(10_000);
      expect((await tenant.call('POST', `/confirmations/${unlock}/approve`)).status).toBe(202);
      await tenant.acknowledge(lock, unlock, 'succeeded');
      advance(20_000);
      await service.runtime.timers.tick();
      const { body } = await tenant.call('GET', `/commands/${unlock}`);
      expect(body.command.verification.status).toBe('timed_out');
      expect(await isOutdated()).toBe(true);
      await tenant.report(lock, { locked: true });
      expect(await isOutdated()).toBe(false);
      tenant.disconnect(lock);
    });

    it('waits for the device longer than ten minutes is outdated until the command ends', async () => {
      const { otherTenant: tenant } = world;
      const { lock, isOutdated } = await addLock();
      const queued = await send(lock, 'lock', { ttl_s: 86_400 });
      advance(660_000);
      await tenant.report(lock, { locked: false });
      expect(await isOutdated()).toBe(true);
      const cancelled = await tenant.call('POST', `/commands/${queued}/cancel`);
      expect(cancelled.body).toMatchObject({ status: 'cancelled' });
      expect(await isOutdated()).toBe(false);
    });
  });
});
