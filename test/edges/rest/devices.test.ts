import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { publicKeyFromSeed } from '../../../src/domain/signature.ts';
import type { House } from '../../support/house.ts';
import { makeTenancy, openHouse, type Tenancy } from '../../support/tenancy.ts';

let house: House;
let mine: Tenancy;
let other: Tenancy;
const HOUR = 3_600_000;

beforeAll(async () => {
  house = await openHouse();
  other = await makeTenancy(house);
});
beforeEach(async () => {
  mine = await makeTenancy(house);
  house.services.settings.betaDeviceLimit = 0;
});
afterAll(() => house.close());

const publicKey = () =>
  publicKeyFromSeed(Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url'));

describe('POST /device/register', () => {
  it('answers every field of the contract, and the secret once', async () => {
    const body = { device_type: 'smart_light', home_id: mine.homeId, room_id: mine.roomId };
    const answer = await mine.call('POST', '/device/register', body);
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({
      status: 'registered',
      device_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      tenant_id: mine.tenantId,
      api_base_url: house.services.settings.apiBaseUrl,
      device_secret: expect.stringMatching(/^[\w-]{43}$/),
      initial_sequence: 1,
      home_id: mine.homeId,
      room_id: mine.roomId,
      key_version: 1,
      signing_alg: 'hmac-sha256',
      mqtt_url: house.services.settings.mqttUrl,
      cloud_public_keys: house.services.settings.cloudPublicKeys,
    });
    const { device_id: id, device_secret: secret } = answer.body;
    const shown = [
      await mine.call('GET', `/devices/${id}`),
      await mine.call('GET', '/devices'),
      await mine.call('GET', `/device/${id}/key-history`),
      await mine.call('GET', `/devices/${id}/manifest`),
    ];
    const journal = await house.services.store.actors.journal({ kind: 'device', id }, 100);
    const stored = await house.services.store.actors.load('device', [id]);
    expect(JSON.stringify([shown.map((one) => one.body), journal, stored, house.errors])).not.toContain(secret);
  });

  it('keeps an HMAC secret sealed and bound to its place', async () => {
    const { device_id: id, device_secret: secret } = await mine.register();
    const [key] = await house.services.store.devices.keyHistory(id);
    expect(key?.sealedSecret).not.toContain(secret);
    expect(house.services.open(key?.sealedSecret ?? '', `device:${id}:1`)).toBe(secret);
    expect(() => house.services.open(key?.sealedSecret ?? '', `device:${id}:2`)).toThrow();
  });

  it('makes an Ed25519 key and keeps its public half alone', async () => {
    const { device_id: id, device_secret: seed } = await mine.register({ signing_alg: 'ed25519' });
    const [key] = await house.services.store.devices.keyHistory(id);
    expect(key).toMatchObject({ sealedSecret: null, publicKey: publicKeyFromSeed(seed), signingAlg: 'ed25519' });
  });

  it('answers no secret to a device that made its own key', async () => {
    const own = publicKey();
    const answer = await mine.register({ signing_alg: 'ed25519', public_key: own });
    expect(answer.device_secret).toBeNull();
    const [key] = await house.services.store.devices.keyHistory(answer.device_id);
    expect(key).toMatchObject({ sealedSecret: null, publicKey: own });
  });

  it.each([
    ['no device_type', { device_type: undefined }, 400, 'VALIDATION_FAILED'],
    ['a device_type of blanks', { device_type: '  ' }, 400, 'VALIDATION_FAILED'],
    ['an unknown field', { colour: 'red' }, 400, 'VALIDATION_FAILED'],
    ['an unknown algorithm', { signing_alg: 'none' }, 400, 'VALIDATION_FAILED'],
    ['a public key with HMAC', { public_key: publicKey() }, 400, 'VALIDATION_FAILED'],
    ['a public key that is none', { signing_alg: 'ed25519', public_key: 'AAAA' }, 400, 'VALIDATION_FAILED'],
    ['a weak public key', { signing_alg: 'ed25519', public_key: 'A'.repeat(43) }, 400, 'VALIDATION_FAILED'],
    ['metadata over 4 KiB', { metadata: { note: 'x'.repeat(4096) } }, 400, 'VALIDATION_FAILED'],
    ['a home that does not exist', { home_id: v7() }, 404, 'NOT_FOUND'],
    ['a home that is no UUID', { home_id: 'nowhere' }, 404, 'NOT_FOUND'],
    ['a room that does not exist', { room_id: v7() }, 404, 'NOT_FOUND'],
  ])('refuses %s', async (_, more, status, code) => {
    const body = { device_type: 'smart_light', home_id: mine.homeId, ...more };
    const answer = await mine.call('POST', '/device/register', body);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect((await mine.call('GET', '/devices')).body.count).toBe(0);
  });

  it("finds neither another tenant's home nor its room", async () => {
    const body = { device_type: 'switch', home_id: other.homeId };
    expect((await mine.call('POST', '/device/register', body)).status).toBe(404);
    const inRoom = { device_type: 'switch', home_id: mine.homeId, room_id: other.roomId };
    expect((await mine.call('POST', '/device/register', inRoom)).status).toBe(404);
  });

  it('refuses a room outside the home', async () => {
    const { body: second } = await mine.call('POST', '/homes', { home_name: 'Hill' });
    const body = { device_type: 'switch', home_id: second.id, room_id: mine.roomId };
    const answer = await mine.call('POST', '/device/register', body);
    expect(answer.status).toBe(400);
    expect(answer.body.errors).toEqual([{ path: 'room_id', message: expect.any(String) }]);
  });

  it('needs the role admin', async () => {
    const body = { device_type: 'switch', home_id: mine.homeId };
    for (const role of ['user', 'viewer'] as const) {
      const answer = await mine.call('POST', '/device/register', body, { token: mine.tokens[role] });
      expect([answer.status, answer.body.code]).toEqual([403, 'FORBIDDEN_ROLE']);
    }
    expect((await mine.call('POST', '/device/register', body, { token: mine.tokens.admin })).status).toBe(201);
  });

  it('is locked by registration_lock', async () => {
    await house.flags.set('registration_lock', true);
    const answer = await mine.call('POST', '/device/register', { device_type: 'switch', home_id: mine.homeId });
    expect([answer.status, answer.body.code]).toEqual([503, 'REGISTRATION_LOCKED']);
    await house.flags.set('registration_lock', false);
  });

  it('gives the same answer, secret and all, to a repeat under the same Idempotency-Key', async () => {
    const body = { device_type: 'switch', home_id: mine.homeId };
    const headers = { 'idempotency-key': v7() };
    const first = await mine.call('POST', '/device/register', body, { headers });
    const again = await mine.call('POST', '/device/register', body, { headers });
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect((await mine.call('GET', '/devices')).body.count).toBe(1);
    const another = await mine.call('POST', '/device/register', { ...body, name: 'x' }, { headers });
    expect([another.status, another.body.code]).toEqual([422, 'IDEMPOTENCY_MISMATCH']);
  });
});

describe('BETA_DEVICE_LIMIT', () => {
  const limit = async (spare: number) => {
    house.services.settings.betaDeviceLimit = (await house.services.store.devices.countActive()) + spare;
  };
  const register = () => mine.call('POST', '/device/register', { device_type: 'switch', home_id: mine.homeId });

  it('lets the last device in and refuses the next', async () => {
    await limit(1);
    expect((await register()).status).toBe(201);
    const answer = await register();
    expect([answer.status, answer.body.code]).toEqual([503, 'BETA_LIMIT_REACHED']);
  });

  it('is kept by ten that register at once', async () => {
    await limit(3);
    const answers = await Promise.all(Array.from({ length: 10 }, register));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, ...Array(7).fill(503)]);
  });

  it('does not count revoked devices, and lets one back in only while there is room', async () => {
    const { device_id: id } = await mine.register();
    await mine.call('POST', `/device/${id}/revoke`);
    await limit(1);
    expect((await register()).status).toBe(201);
    const answer = await mine.call('POST', `/device/${id}/reinstate`, { reason: 'found' });
    expect([answer.status, answer.body.code]).toEqual([503, 'BETA_LIMIT_REACHED']);
    await limit(1);
    expect((await mine.call('POST', `/device/${id}/reinstate`, { reason: 'found' })).status).toBe(200);
  });
});

describe('GET /devices', () => {
  it('lists newest first, with the count of all devices, page by page', async () => {
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

  it('refuses filters that are malformed and cursors that belong elsewhere', async () => {
    for (let n = 0; n < 2; n++) await mine.register();
    const { next_cursor: cursor } = (await mine.call('GET', '/devices?limit=1')).body;
    const queries = ['online=maybe', 'home_id=x', 'limit=0', 'limit=201', 'colour=red', 'cursor=abc'];
    for (const query of [...queries, `limit=1&revoked=false&cursor=${cursor}`]) {
      const answer = await mine.call('GET', `/devices?${query}`);
      expect([query, answer.status, answer.body.code]).toEqual([query, 400, 'VALIDATION_FAILED']);
    }
  });

  it("shows nothing of another tenant's, and nothing to a viewer", async () => {
    await other.register();
    expect((await mine.call('GET', '/devices')).body).toEqual({ devices: [], count: 0, next_cursor: null });
    expect((await mine.call('GET', '/devices', undefined, { token: mine.tokens.viewer })).status).toBe(403);
    expect((await mine.call('GET', '/devices', undefined, { token: mine.tokens.user })).status).toBe(200);
  });
});

describe('GET /devices/{id}', () => {
  it('shows the whole record, with what was reported and heard', async () => {
    const { device_id: id } = await mine.register({ name: 'Lamp', metadata: { floor: 2 } });
    await mine.connect(id);
    await mine.report(id, { on: true, brightness: 40 });
    house.runtime.sessions.seen(id, { at: house.clock.now(), battery: 87 });
    await house.runtime.sessions.tick();
    const { status, body } = await mine.call('GET', `/devices/${id}`);
    expect(status).toBe(200);
    const now = new Date(house.clock.now()).toISOString();
    expect(body).toEqual({
      device: {
        id,
        device_type: 'smart_light',
        home_id: mine.homeId,
        room_id: null,
        firmware: null,
        last_seen: now,
        revoked: false,
        name: 'Lamp',
        metadata: { floor: 2 },
        online: true,
        state: { on: true, brightness: 40 },
        state_version: 1,
        battery: 87,
        key_version: 1,
        signing_alg: 'hmac-sha256',
        manifest_version: 1,
        created_at: now,
      },
    });
    mine.disconnect(id);
  });

  it('has no manifest_version where the type has no category', async () => {
    const { device_id: id } = await mine.register({ device_type: 'esp32' });
    expect((await mine.call('GET', `/devices/${id}`)).body.device.manifest_version).toBeNull();
  });

  it("answers alike for a missing device, another tenant's and no UUID at all", async () => {
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

  it('leaves the room behind when it moves to another home', async () => {
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

  it('needs the role admin and a device of the tenant', async () => {
    const { device_id: id } = await mine.register();
    const { device_id: theirs } = await other.register();
    const asUser = await mine.call('PATCH', `/devices/${id}`, { name: 'x' }, { token: mine.tokens.user });
    expect(asUser.status).toBe(403);
    expect((await mine.call('PATCH', `/devices/${theirs}`, { name: 'x' })).status).toBe(404);
    expect((await mine.call('PATCH', `/devices/${v7()}`, { name: 'x' })).status).toBe(404);
  });

  it('places no revoked device', async () => {
    const { device_id: id } = await mine.register();
    await mine.call('POST', `/device/${id}/revoke`);
    const answer = await mine.call('PATCH', `/devices/${id}`, { home_id: mine.homeId });
    expect([answer.status, answer.body.code]).toEqual([403, 'DEVICE_REVOKED']);
    expect((await mine.call('PATCH', `/devices/${id}`, { name: 'Old lamp' })).status).toBe(200);
  });

  it('does not place a device in a home that goes away at the same time', async () => {
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

describe('keys of a device', () => {
  it('rotates to a new secret and lists the lives of all keys', async () => {
    const { device_id: id, device_secret: first } = await mine.register();
    const at = house.clock.now();
    const rotated = await mine.call('POST', `/device/${id}/rotate-secret`);
    expect(rotated.status).toBe(200);
    expect(rotated.body).toEqual({ device_id: id, new_secret: expect.stringMatching(/^[\w-]{43}$/), key_version: 2 });
    expect(rotated.body.new_secret).not.toBe(first);
    const history = await mine.call('GET', `/device/${id}/key-history`);
    const created_at = new Date(at).toISOString();
    const more = { signing_alg: 'hmac-sha256', last_used_at: null };
    expect(history.body).toEqual({
      device_id: id,
      keys: [
        { key_version: 2, status: 'active', created_at, grace_until: null, ...more },
        { key_version: 1, status: 'grace', created_at, grace_until: new Date(at + 24 * HOUR).toISOString(), ...more },
      ],
    });
    await mine.call('POST', `/device/${id}/rotate-secret`, {});
    const { keys } = (await mine.call('GET', `/device/${id}/key-history`)).body;
    expect(keys.map((key: { status: string }) => key.status)).toEqual(['active', 'grace', 'retired']);
  });

  it('takes a key that the device made, and answers no secret', async () => {
    const { device_id: id } = await mine.register({ signing_alg: 'ed25519' });
    const own = publicKey();
    const { status, body } = await mine.call('POST', `/device/${id}/rotate-secret`, { public_key: own });
    expect(status).toBe(200);
    expect(body).toEqual({ device_id: id, new_secret: null, key_version: 2 });
    const seeded = await mine.call('POST', `/device/${id}/rotate-secret`);
    const keys = await house.services.store.devices.keyHistory(id);
    const current = keys.find(({ keyVersion }) => keyVersion === 3);
    expect(current).toMatchObject({ publicKey: publicKeyFromSeed(seeded.body.new_secret), sealedSecret: null });
  });

  it('gives two rotations at the same time two key versions', async () => {
    const { device_id: id } = await mine.register();
    const rotations = await Promise.all([1, 2].map(() => mine.call('POST', `/device/${id}/rotate-secret`)));
    expect(rotations.map(({ body }) => body.key_version).sort()).toEqual([2, 3]);
  });

  it('drops stored answers that hold a secret when the keys change, and keeps the newest', async () => {
    const headers = { 'idempotency-key': v7() };
    const body = { device_type: 'switch', home_id: mine.homeId };
    const first = await mine.call('POST', '/device/register', body, { headers });
    const id = first.body.device_id;
    const rotated = await mine.call('POST', `/device/${id}/rotate-secret`, {}, { headers });
    const again = await mine.call('POST', `/device/${id}/rotate-secret`, {}, { headers });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(again.body).toEqual(rotated.body);
    const repeated = await mine.call('POST', '/device/register', body, { headers });
    expect(repeated.body.device_secret).not.toBe(first.body.device_secret);
    await mine.call('POST', `/device/${id}/revoke`);
    const refused = await mine.call('POST', `/device/${id}/rotate-secret`, {}, { headers });
    expect([refused.status, refused.body.code]).toEqual([403, 'DEVICE_REVOKED']);
  });

  it('revokes again and again with the same answer', async () => {
    const { device_id: id } = await mine.register();
    for (let n = 0; n < 2; n++) {
      const answer = await mine.call('POST', `/device/${id}/revoke`);
      expect([answer.status, answer.body]).toEqual([200, { device_id: id, status: 'revoked' }]);
    }
    const { device } = (await mine.call('GET', `/devices/${id}`)).body;
    expect(device).toMatchObject({ revoked: true, home_id: null, room_id: null });
    const { keys } = (await mine.call('GET', `/device/${id}/key-history`)).body;
    expect(keys.map((key: { status: string }) => key.status)).toEqual(['revoked']);
    expect((await mine.call('GET', '/devices')).body.count).toBe(1);
  });

  it('reinstates with a new key and the history kept', async () => {
    const { device_id: id } = await mine.register();
    const early = await mine.call('POST', `/device/${id}/reinstate`, { reason: 'why not' });
    expect([early.status, early.body.code]).toEqual([409, 'ILLEGAL_TRANSITION']);
    await mine.call('POST', `/device/${id}/revoke`);
    expect((await mine.call('POST', `/device/${id}/reinstate`, {})).status).toBe(400);
    const { status, body } = await mine.call('POST', `/device/${id}/reinstate`, { reason: 'found again' });
    expect(status).toBe(200);
    expect(body).toEqual({
      device_id: id,
      status: 'active',
      new_secret: expect.stringMatching(/^[\w-]{43}$/),
      key_version: 2,
    });
    const { keys } = (await mine.call('GET', `/device/${id}/key-history`)).body;
    expect(keys.map((key: { status: string }) => key.status)).toEqual(['active', 'revoked']);
    expect((await mine.call('GET', `/devices/${id}`)).body.device.revoked).toBe(false);
  });

  it('goes on under maintenance for revocation alone', async () => {
    const { device_id: id } = await mine.register();
    await house.flags.set('maintenance_mode', true);
    try {
      for (const path of ['rotate-secret', 'reinstate']) {
        const answer = await mine.call('POST', `/device/${id}/${path}`, path === 'reinstate' ? { reason: 'x' } : {});
        expect([answer.status, answer.body.code]).toEqual([503, 'MAINTENANCE']);
      }
      expect((await mine.call('POST', `/device/${id}/revoke`)).status).toBe(200);
    } finally {
      await house.flags.set('maintenance_mode', false);
    }
  });

  it('knows no device of another tenant, and touches none of its stored answers', async () => {
    const headers = { 'idempotency-key': v7() };
    const body = { device_type: 'switch', home_id: other.homeId };
    const theirs = await other.call('POST', '/device/register', body, { headers });
    const id = theirs.body.device_id;
    for (const [method, path] of [
      ['POST', 'rotate-secret'],
      ['POST', 'revoke'],
      ['GET', 'key-history'],
    ] as const) {
      for (const one of [id, v7(), 'x']) {
        expect((await mine.call(method, `/device/${one}/${path}`)).status).toBe(404);
      }
    }
    expect((await mine.call('POST', `/device/${id}/reinstate`, { reason: 'x' })).status).toBe(404);
    const again = await other.call('POST', '/device/register', body, { headers });
    expect(again.body).toEqual(theirs.body);
  });

  it('needs the role admin', async () => {
    const { device_id: id } = await mine.register();
    const token = mine.tokens.user;
    expect((await mine.call('POST', `/device/${id}/rotate-secret`, {}, { token })).status).toBe(403);
    expect((await mine.call('POST', `/device/${id}/revoke`, {}, { token })).status).toBe(403);
    expect((await mine.call('POST', `/device/${id}/reinstate`, { reason: 'x' }, { token })).status).toBe(403);
    expect((await mine.call('GET', `/device/${id}/key-history`, undefined, { token })).status).toBe(403);
  });
});

describe('DELETE /devices/{id}', () => {
  it('deletes a revoked device and keeps its journal', async () => {
    const { device_id: id } = await mine.register();
    const early = await mine.call('DELETE', `/devices/${id}`);
    expect([early.status, early.body.code]).toEqual([409, 'ILLEGAL_TRANSITION']);
    await mine.call('POST', `/device/${id}/revoke`);
    expect((await mine.call('DELETE', `/devices/${id}`)).status).toBe(204);
    expect((await mine.call('GET', `/devices/${id}`)).status).toBe(404);
    expect((await mine.call('DELETE', `/devices/${id}`)).status).toBe(404);
    expect((await mine.call('GET', '/devices')).body).toMatchObject({ devices: [], count: 0 });
    const journal = await house.services.store.actors.journal({ kind: 'device', id }, 100);
    expect(journal.map(({ event }) => event)).toEqual(expect.arrayContaining(['register', 'revoke', 'delete']));
  });

  it('needs the role admin and a device of the tenant', async () => {
    const { device_id: id } = await mine.register();
    const { device_id: theirs } = await other.register();
    const asUser = await mine.call('DELETE', `/devices/${id}`, undefined, { token: mine.tokens.user });
    expect(asUser.status).toBe(403);
    expect((await mine.call('DELETE', `/devices/${theirs}`)).status).toBe(404);
  });
});
