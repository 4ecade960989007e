import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DeviceEvent } from '../../../src/machines/device-types.ts';
import { CommitUnknown } from '../../../src/store/contract.ts';
import { eventLoopTurns } from '../../support/clock.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
let token: string;
let tenantId: string;
let outsider: string;
beforeAll(async () => {
  service = await startHttpService();
  ({ token, tenantId } = await service.owner());
  ({ token: outsider } = await service.owner('Strangers'));
});
afterAll(() => service.close());

const call: HttpService['call'] = (method, path, sent) => service.call(method, `/v1${path}`, { token, ...sent });
const home = async (body: object = { home_name: 'Home' }) => (await call('POST', '/homes', { body })).body.id as string;
const room = async (homeId: string, name = 'Kitchen') =>
  (await call('POST', `/homes/${homeId}/rooms`, { body: { name } })).body.id as string;

/** A device in this home and room, registered without the operation. */
async function device(homeId: string, roomId: string | null): Promise<string> {
  const { newId } = service.services;
  const id = newId();
  const at = service.clock.now();
  const event: DeviceEvent = {
    type: 'register',
    at,
    device: {
      ...{ id, tenantId, homeId, roomId },
      deviceType: 'smart_light',
      category: null,
      name: null,
      metadata: {},
      signingAlg: 'hmac-sha256',
    },
    key: { keyVersion: 1, signingAlg: 'hmac-sha256', sealedSecret: 'sealed', publicKey: null, createdAt: at },
    manifest: null,
  };
  await service.runtime.actors.create({ kind: 'device', id }, event);
  return id;
}
const contextOf = async (id: string) =>
  (await service.runtime.actors.read({ kind: 'device', id }))?.snapshot.context.fixed;

describe('a home', () => {
  it('is created, listed, changed and deleted', async () => {
    const made = await call('POST', '/homes', { body: { home_name: 'Lakeside', timezone: 'Asia/Kolkata' } });
    expect([made.status, made.body]).toEqual([201, { status: 'created', id: expect.any(String) }]);
    const { id } = made.body;
    const listed = (await call('GET', '/homes')).body.homes.find((entry: { id: string }) => entry.id === id);
    const created_at = new Date(service.clock.now()).toISOString();
    expect(listed).toEqual({ id, home_name: 'Lakeside', timezone: 'Asia/Kolkata', created_at });
    const changed = await call('PATCH', `/homes/${id}`, { body: { home_name: 'Seaside' } });
    expect(changed.body).toEqual({ home: { id, home_name: 'Seaside', timezone: 'Asia/Kolkata', created_at } });
    expect((await call('PATCH', `/homes/${id}`, { body: {} })).body.home.home_name).toBe('Seaside');
    const deleted = await call('DELETE', `/homes/${id}`);
    expect([deleted.status, deleted.body]).toEqual([204, '']);
    expect((await call('DELETE', `/homes/${id}`)).status).toBe(404);
  });

  it('is deleted with its rooms', async () => {
    const id = await home();
    const inside = await room(id);
    await call('DELETE', `/homes/${id}`);
    expect(service.store.rooms.has(inside)).toBe(false);
  });

  it('is shown alone, to its tenant only', async () => {
    const id = await home({ home_name: 'Cabin' });
    expect((await call('GET', `/homes/${id}`)).body.home).toMatchObject({ id, home_name: 'Cabin' });
    expect((await call('GET', `/homes/${id}`, { token: outsider })).status).toBe(404);
  });

  it('is kept while it has an active device, and deleted despite revoked ones', async () => {
    const id = await home();
    const lamp = await device(id, null);
    const refused = await call('DELETE', `/homes/${id}`);
    expect([refused.status, refused.body.code]).toEqual([409, 'CONFLICT']);
    await service.runtime.actors.send({ kind: 'device', id: lamp }, { type: 'revoke', at: service.clock.now() });
    expect((await call('DELETE', `/homes/${id}`)).status).toBe(204);
    expect(await contextOf(lamp)).toMatchObject({ homeId: null, roomId: null });
  });

  it('is kept if the commit of a registration takes effect after its answer', async () => {
    const id = await home();
    const { actors } = service.services;
    const { create } = actors;
    const stall = Promise.withResolvers<void>();
    actors.create = async (...requested) => {
      const ended = stall.promise.then(() => create.apply(actors, requested)).then(() => {});
      throw new CommitUnknown('no answer from the store', { ended });
    };
    const registered = await call('POST', '/device/register', { body: { device_type: 'smart_light', home_id: id } });
    actors.create = create;
    expect([registered.status, registered.body.code]).toEqual([503, 'STORE_UNAVAILABLE']);
    const deleted = call('DELETE', `/homes/${id}`);
    await eventLoopTurns();
    stall.resolve();
    expect((await deleted).status).toBe(409);
    expect((await call('GET', `/devices?home_id=${id}`)).body.devices).toHaveLength(1);
  });
});

describe('a room', () => {
  it('is created, listed and deleted', async () => {
    const homeId = await home();
    const id = await room(homeId, 'Kitchen');
    expect((await call('GET', `/homes/${homeId}/rooms`)).body).toEqual({
      rooms: [{ id, name: 'Kitchen', home_id: homeId }],
      count: 1,
      next_cursor: null,
    });
    expect((await call('DELETE', `/homes/${homeId}/rooms/${id}`)).status).toBe(204);
    expect((await call('DELETE', `/homes/${homeId}/rooms/${id}`)).status).toBe(404);
  });

  it('is shown alone and renamed, and only below its home', async () => {
    const [homeId, other] = [await home(), await home()];
    const id = await room(homeId, 'Kitchen');
    const path = `/homes/${homeId}/rooms/${id}`;
    expect((await call('GET', path)).body).toEqual({ room: { id, name: 'Kitchen', home_id: homeId } });
    const renamed = await call('PATCH', path, { body: { name: 'Larder' } });
    expect([renamed.status, renamed.body]).toEqual([200, { room: { id, name: 'Larder', home_id: homeId } }]);
    expect((await call('GET', path)).body.room.name).toBe('Larder');
    for (const sent of [{ body: { name: ' ' } }, { body: { home_id: other } }])
      expect((await call('PATCH', path, sent)).status).toBe(400);
    for (const method of ['GET', 'PATCH'] as const) {
      const sent = method === 'GET' ? {} : { body: { name: 'x' } };
      expect((await call(method, `/homes/${other}/rooms/${id}`, sent)).status).toBe(404);
      expect((await call(method, path, { ...sent, token: outsider })).status).toBe(404);
    }
  });

  it('leaves its devices in the home', async () => {
    const homeId = await home();
    const id = await room(homeId);
    const lamps = [await device(homeId, id), await device(homeId, id), await device(homeId, null)];
    expect((await call('DELETE', `/homes/${homeId}/rooms/${id}`)).status).toBe(204);
    for (const lamp of lamps) expect(await contextOf(lamp)).toMatchObject({ homeId, roomId: null });
  });

  it('is not found through another home', async () => {
    const [one, two] = [await home(), await home()];
    const id = await room(one);
    expect((await call('DELETE', `/homes/${two}/rooms/${id}`)).body.detail).toBe('Room not found.');
    expect(service.store.rooms.has(id)).toBe(true);
  });

  it('requires a home', async () => {
    const path = `/homes/${service.services.newId()}/rooms`;
    expect((await call('POST', path, { body: { name: 'x' } })).status).toBe(404);
    expect((await call('GET', path)).status).toBe(404);
  });
});

describe('of another tenant', () => {
  it('homes and rooms are not found, with the same message as missing ones', async () => {
    const homeId = await home();
    const roomId = await room(homeId);
    const missing = service.services.newId();
    const tries = (home: string, room: string) => [
      service.call('PATCH', `/v1/homes/${home}`, { token: outsider, body: { home_name: 'Mine' } }),
      service.call('DELETE', `/v1/homes/${home}`, { token: outsider }),
      service.call('POST', `/v1/homes/${home}/rooms`, { token: outsider, body: { name: 'Mine' } }),
      service.call('GET', `/v1/homes/${home}/rooms`, { token: outsider }),
      service.call('DELETE', `/v1/homes/${home}/rooms/${room}`, { token: outsider }),
    ];
    const theirs = await Promise.all(tries(homeId, roomId));
    const none = await Promise.all(tries(missing, missing));
    theirs.forEach((answer, n) => {
      expect(answer.status).toBe(404);
      const { instance: _, request_id: __, ...words } = answer.body;
      expect(none[n]?.body).toMatchObject(words);
    });
    expect((await service.call('GET', '/v1/homes', { token: outsider })).body.homes).toEqual([]);
  });
});

describe('roles', () => {
  it('a viewer and a user may read, an admin may change', async () => {
    const id = await home();
    for (const role of ['viewer', 'user'] as const) {
      const member = await service.member(tenantId, role);
      expect((await call('GET', '/homes', { token: member })).status).toBe(200);
      expect((await call('GET', `/homes/${id}/rooms`, { token: member })).status).toBe(200);
      for (const [method, path, body] of [
        ['POST', '/homes', { home_name: 'x' }],
        ['PATCH', `/homes/${id}`, {}],
        ['DELETE', `/homes/${id}`, undefined],
        ['POST', `/homes/${id}/rooms`, { name: 'x' }],
        ['DELETE', `/homes/${id}/rooms/${id}`, undefined],
      ] as const) {
        const { status, body: answer } = await call(method, path, { token: member, body });
        expect([status, answer.code]).toEqual([403, 'FORBIDDEN_ROLE']);
      }
    }
    const admin = await service.member(tenantId, 'admin');
    expect((await call('POST', '/homes', { token: admin, body: { home_name: 'x' } })).status).toBe(201);
  });
});

describe('the list', () => {
  it('is ordered newest first, in pages that concurrent insertions do not shift', async () => {
    const { token } = await service.owner('Pages');
    const add = async (n: number) => {
      service.clock.advance(n % 2); // some share a millisecond
      await service.call('POST', '/v1/homes', { token, body: { home_name: `h${n}` } });
    };
    for (let n = 0; n < 7; n++) await add(n);
    const names: string[] = [];
    let cursor: string | null = null;
    do {
      const query = `limit=3${cursor === null ? '' : `&cursor=${cursor}`}`;
      const { status, body } = await service.call('GET', `/v1/homes?${query}`, { token });
      expect(status).toBe(200);
      names.push(...body.homes.map((entry: { home_name: string }) => entry.home_name));
      cursor = body.next_cursor;
      await add(100 + names.length);
    } while (cursor !== null);
    expect(names).toEqual(['h6', 'h5', 'h4', 'h3', 'h2', 'h1', 'h0']);
  });

  it('rejects a cursor of another list, of other filters, or a modified one', async () => {
    const homeId = await home();
    const other = await home();
    for (let n = 0; n < 3; n++) await room(homeId, `r${n}`);
    const { body } = await call('GET', `/homes/${homeId}/rooms?limit=1`);
    const cursor = body.next_cursor as string;
    expect((await call('GET', `/homes/${homeId}/rooms?cursor=${cursor}`)).body.rooms).toHaveLength(2);
    const touched = `${cursor.slice(0, 5)}${cursor[5] === 'A' ? 'B' : 'A'}${cursor.slice(6)}`;
    for (const path of [
      `/homes?cursor=${cursor}`,
      `/homes/${other}/rooms?cursor=${cursor}`,
      `/homes/${homeId}/rooms?cursor=${touched}`,
    ]) {
      const { status, body } = await call('GET', path);
      expect([status, body.errors[0].path]).toEqual([400, 'cursor']);
    }
  });
});
