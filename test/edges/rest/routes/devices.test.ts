import { v7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { mine, other, service, withTwoTenants } from '../two-tenants.ts';

withTwoTenants();
beforeEach(() => {
  service.services.settings.betaDeviceLimit = 0;
});

describe('GET /devices', () => {
  it('lists newest first, with the count of all devices, in pages', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push((await mine.register()).device_id);
    const first = await mine.call('GET', '/devices?limit=2');
    expect(first.body.devices.map((one: { id: string }) => one.id)).toEqual([ids[4], ids[3]]);
    expect(first.body.count).toBe(5);
    const extra = await mine.register(); // the cursor survives an insert
    const second = await mine.call('GET', `/devices?limit=2&cursor=${first.body.next_cursor}`);
    expect(second.body.devices.map((one: { id: string }) => one.id)).toEqual([ids[2], ids[1]]);
    const last = await mine.call('GET', `/devices?limit=2&cursor=${second.body.next_cursor}`);
    expect(last.body).toMatchObject({ devices: [{ id: ids[0] }], count: 6, next_cursor: null });
    expect(last.body.devices.map((one: { id: string }) => one.id)).not.toContain(extra.device_id);
  });

  it('shows the fields of the specification', async () => {
    const { device_id: id } = await mine.register({ name: 'Lamp', room_id: mine.roomId });
    const { devices } = (await mine.call('GET', '/devices')).body;
    expect(devices).toEqual([
      {
        id,
        device_type: 'smart_light',
        home_id: mine.homeId,
        room_id: mine.roomId,
        firmware: null,
        last_seen: null,
        revoked: false,
        tags: [],
        name: 'Lamp',
        online: false,
      },
    ]);
  });

  it('filters by home, room, type, presence and revocation', async () => {
    const { body: second } = await mine.call('POST', '/homes', { home_name: 'Hill' });
    const lamp = (await mine.register({ room_id: mine.roomId })).device_id;
    const lock = (await mine.register({ device_type: 'lock', home_id: second.id })).device_id;
    const gone = (await mine.register({ device_type: 'lock' })).device_id;
    await mine.call('POST', `/device/${gone}/revoke`);
    await mine.connect(lock);
    await mine.send(lock, { type: 'hello.received', firmware: '1.2.3' });
    const found = async (query: string) => {
      const { status, body } = await mine.call('GET', `/devices?${query}`);
      expect(status).toBe(200);
      expect(body.count).toBe(3);
      return body.devices.map((one: { id: string }) => one.id);
    };
    expect(await found(`home_id=${second.id}`)).toEqual([lock]);
    expect(await found(`room_id=${mine.roomId}`)).toEqual([lamp]);
    expect(await found(`home_id=${mine.homeId}&room_id=${mine.roomId}`)).toEqual([lamp]);
    expect(await found('device_type=lock')).toEqual([gone, lock]);
    expect(await found('online=true')).toEqual([lock]);
    expect(await found('online=false')).toEqual([gone, lamp]);
    expect(await found('revoked=true')).toEqual([gone]);
    expect(await found('revoked=false&device_type=lock')).toEqual([lock]);
    expect(await found(`home_id=${other.homeId}`)).toEqual([]);
    mine.disconnect(lock);
  });

  it('refuses malformed filters and cursors of other lists', async () => {
    for (let n = 0; n < 2; n++) await mine.register();
    const { next_cursor: cursor } = (await mine.call('GET', '/devices?limit=1')).body;
    const queries = ['online=maybe', 'home_id=x', 'limit=0', 'limit=201', 'colour=red', 'cursor=abc'];
    for (const query of [...queries, `limit=1&revoked=false&cursor=${cursor}`]) {
      const answer = await mine.call('GET', `/devices?${query}`);
      expect([query, answer.status, answer.body.code]).toEqual([query, 400, 'VALIDATION_FAILED']);
    }
  });

  it('shows nothing of another tenant, and nothing to a viewer', async () => {
    await other.register();
    expect((await mine.call('GET', '/devices')).body).toEqual({ devices: [], count: 0, next_cursor: null });
    expect((await mine.call('GET', '/devices', undefined, { token: mine.tokens.viewer })).status).toBe(403);
    expect((await mine.call('GET', '/devices', undefined, { token: mine.tokens.user })).status).toBe(200);
  });
});

describe('GET /devices/{id}', () => {
  it('shows the whole record, with reported state and activity', async () => {
    const { device_id: id } = await mine.register({ name: 'Lamp', metadata: { floor: 2 } });
    await mine.connect(id);
    await mine.report(id, { on: true, brightness: 40 });
    service.runtime.sessions.recordActivity(id, { at: service.clock.now(), battery: 87 });
    const { status, body } = await mine.call('GET', `/devices/${id}`);
    expect(status).toBe(200);
    const now = new Date(service.clock.now()).toISOString();
    expect(body).toEqual({
      device: {
        id,
        device_type: 'smart_light',
        home_id: mine.homeId,
        room_id: null,
        firmware: null,
        last_seen: now,
        revoked: false,
        tags: [],
        name: 'Lamp',
        metadata: { floor: 2 },
        online: true,
        state: { on: true, brightness: 40 },
        state_version: 1,
        battery: 87,
        telemetry: null,
        history_paused_until: null,
        key_version: 1,
        signing_alg: 'hmac-sha256',
        manifest_version: 1,
        created_at: now,
      },
    });
    mine.disconnect(id);
    await service.runtime.sessions.tick();
    const { device } = (await mine.call('GET', `/devices/${id}`)).body;
    expect(device).toMatchObject({ last_seen: now, battery: 87 });
  });

  it('has no manifest_version if the type has no category', async () => {
    const { device_id: id } = await mine.register({ device_type: 'esp32' });
    expect((await mine.call('GET', `/devices/${id}`)).body.device.manifest_version).toBeNull();
  });

  it("returns the same for a missing device, another tenant's and an invalid id", async () => {
    const { device_id: theirs } = await other.register();
    const answers = await Promise.all(
      [v7(), theirs, theirs.toUpperCase(), 'lamp', '%00'].map((id) => mine.call('GET', `/devices/${id}`)),
    );
    const bodies = answers.map(({ body: { instance: _, request_id: __, ...rest } }) => rest);
    expect(answers.slice(0, 4).map(({ status }) => status)).toEqual([404, 404, 404, 404]);
    for (const body of bodies.slice(0, 4)) expect(body).toEqual(bodies[0]);
    expect([400, 404]).toContain(answers[4]?.status);
  });
});

describe('PATCH /devices/{id}', () => {
  it('renames, moves and replaces the metadata', async () => {
    const { device_id: id } = await mine.register({ metadata: { a: 1 } });
    const body = { name: 'Desk', room_id: mine.roomId, metadata: { b: 2 } };
    const answer = await mine.call('PATCH', `/devices/${id}`, body);
    expect(answer.status).toBe(200);
    expect(answer.body.device).toMatchObject({ id, home_id: mine.homeId, ...body });
    expect((await mine.call('GET', `/devices/${id}`)).body.device).toEqual(answer.body.device);
    const cleared = await mine.call('PATCH', `/devices/${id}`, { name: null, room_id: null });
    expect(cleared.body.device).toMatchObject({ name: null, room_id: null, metadata: { b: 2 } });
    expect((await mine.call('PATCH', `/devices/${id}`, {})).body.device).toEqual(cleared.body.device);
  });

  it('clears the room when it moves to another home', async () => {
    const { body: second } = await mine.call('POST', '/homes', { home_name: 'Hill' });
    const { device_id: id } = await mine.register({ room_id: mine.roomId });
    const moved = await mine.call('PATCH', `/devices/${id}`, { home_id: second.id });
    expect(moved.body.device).toMatchObject({ home_id: second.id, room_id: null });
    const outside = await mine.call('PATCH', `/devices/${id}`, { room_id: mine.roomId });
    expect([outside.status, outside.body.code]).toEqual([400, 'VALIDATION_FAILED']);
  });

  it.each([
    ['a home that does not exist', () => ({ home_id: v7() }), 404],
    ["another tenant's home", () => ({ home_id: other.homeId }), 404],
    ["another tenant's room", () => ({ room_id: other.roomId }), 404],
    ['no home at all', () => ({ home_id: null }), 400],
    ['an unknown field', () => ({ revoked: true }), 400],
    ['a blank name', () => ({ name: ' ' }), 400],
  ])('refuses %s', async (_, body, status) => {
    const { device_id: id } = await mine.register();
    expect((await mine.call('PATCH', `/devices/${id}`, body())).status).toBe(status);
  });

  it('requires the role admin and a device of the tenant', async () => {
    const { device_id: id } = await mine.register();
    const { device_id: theirs } = await other.register();
    const asUser = await mine.call('PATCH', `/devices/${id}`, { name: 'x' }, { token: mine.tokens.user });
    expect(asUser.status).toBe(403);
    expect((await mine.call('PATCH', `/devices/${theirs}`, { name: 'x' })).status).toBe(404);
    expect((await mine.call('PATCH', `/devices/${v7()}`, { name: 'x' })).status).toBe(404);
  });

  it('refuses to place a revoked device', async () => {
    const { device_id: id } = await mine.register();
    await mine.call('POST', `/device/${id}/revoke`);
    const answer = await mine.call('PATCH', `/devices/${id}`, { home_id: mine.homeId });
    expect([answer.status, answer.body.code]).toEqual([403, 'DEVICE_REVOKED']);
    expect((await mine.call('PATCH', `/devices/${id}`, { name: 'Old lamp' })).status).toBe(200);
  });

  it('keeps room and home consistent under concurrent moves', async () => {
    const { body: second } = await mine.call('POST', '/homes', { home_name: 'Hill' });
    const { device_id: id } = await mine.register();
    const [away, inside] = await Promise.all([
      mine.call('PATCH', `/devices/${id}`, { home_id: second.id }),
      mine.call('PATCH', `/devices/${id}`, { room_id: mine.roomId }),
    ]);
    expect(away.status).toBe(200);
    expect([200, 400]).toContain(inside.status);
    const { device } = (await mine.call('GET', `/devices/${id}`)).body;
    expect(device).toMatchObject({ home_id: second.id, room_id: null });
  });

  it('does not place a device in a home that is deleted concurrently', async () => {
    const { body: second } = await mine.call('POST', '/homes', { home_name: 'Hill' });
    const { device_id: id } = await mine.register();
    const [deleted, moved] = await Promise.all([
      mine.call('DELETE', `/homes/${second.id}`),
      mine.call('PATCH', `/devices/${id}`, { home_id: second.id }),
    ]);
    expect([
      [204, 404],
      [409, 200],
    ]).toContainEqual([deleted.status, moved.status]);
  });
});

describe('DELETE /devices/{id}', () => {
  it('deletes a revoked device and keeps its journal', async () => {
    const { device_id: id } = await mine.register();
    const early = await mine.call('DELETE', `/devices/${id}`);
    expect([early.status, early.body.code]).toEqual([409, 'ILLEGAL_TRANSITION']);
    await mine.call('POST', `/device/${id}/revoke`);
    const before = service.services.manifests.sizes().manifests as number;
    expect((await mine.call('DELETE', `/devices/${id}`)).status).toBe(204);
    expect(service.services.manifests.sizes().manifests).toBe(before - 1);
    expect((await mine.call('GET', `/devices/${id}`)).status).toBe(404);
    expect((await mine.call('DELETE', `/devices/${id}`)).status).toBe(404);
    expect((await mine.call('GET', '/devices')).body).toMatchObject({ devices: [], count: 0 });
    const journal = await service.services.store.actors.journal({ kind: 'device', id }, 100);
    expect(journal.map(({ event }) => event)).toEqual(expect.arrayContaining(['register', 'revoke', 'delete']));
  });

  it('requires the role admin and a device of the tenant', async () => {
    const { device_id: id } = await mine.register();
    const { device_id: theirs } = await other.register();
    const asUser = await mine.call('DELETE', `/devices/${id}`, undefined, { token: mine.tokens.user });
    expect(asUser.status).toBe(403);
    expect((await mine.call('DELETE', `/devices/${theirs}`)).status).toBe(404);
  });
});
