import { v7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { publicKeyFromSeed } from '../../../../src/protocol/signature.ts';
import { mine, other, service, withTwoTenants } from '../two-tenants.ts';

const HOUR = 3_600_000;

withTwoTenants();
beforeEach(() => {
  service.services.settings.betaDeviceLimit = 0;
});

const publicKey = () =>
  publicKeyFromSeed(Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url'));

describe('keys of a device', () => {
  it('rotate to a new secret, and are listed with their history', async () => {
    const { device_id: id, device_secret: first } = await mine.register();
    const at = service.clock.now();
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
    // The second rotation ended the first grace.
    expect(keys[2].grace_until).toBe(new Date(service.clock.now()).toISOString());
  });

  it('can be created by the device, without a secret in the response', async () => {
    const { device_id: id } = await mine.register({ signing_alg: 'ed25519' });
    const own = publicKey();
    const { status, body } = await mine.call('POST', `/device/${id}/rotate-secret`, { public_key: own });
    expect(status).toBe(200);
    expect(body).toEqual({ device_id: id, new_secret: null, key_version: 2 });
    const seeded = await mine.call('POST', `/device/${id}/rotate-secret`);
    const keys = await service.services.store.devices.keyHistory(id);
    const current = keys.find(({ keyVersion }) => keyVersion === 3);
    expect(current).toMatchObject({ publicKey: publicKeyFromSeed(seeded.body.new_secret), sealedSecret: null });
  });

  it('change from HMAC to a public key of the device', async () => {
    const { device_id: id } = await mine.register();
    const rotated = await mine.call('POST', `/device/${id}/rotate-secret`, { public_key: publicKey() });
    expect(rotated.body).toEqual({ device_id: id, new_secret: null, key_version: 2 });
    const { keys } = (await mine.call('GET', `/device/${id}/key-history`)).body;
    expect(keys).toMatchObject([{ signing_alg: 'ed25519' }, { signing_alg: 'hmac-sha256', status: 'grace' }]);
    expect((await mine.call('GET', `/devices/${id}`)).body.device.signing_alg).toBe('ed25519');
  });

  it('get two versions in two concurrent rotations', async () => {
    const { device_id: id } = await mine.register();
    const rotations = await Promise.all([1, 2].map(() => mine.call('POST', `/device/${id}/rotate-secret`)));
    expect(rotations.map(({ body }) => body.key_version).sort()).toEqual([2, 3]);
  });

  it('change, and drop stored responses with an older secret, keeping the newest and every key', async () => {
    const headers = { 'idempotency-key': v7() };
    const body = { device_type: 'switch', home_id: mine.homeId };
    const first = await mine.call('POST', '/device/register', body, { headers });
    const id = first.body.device_id;
    const rotated = await mine.call('POST', `/device/${id}/rotate-secret`, {}, { headers });
    const again = await mine.call('POST', `/device/${id}/rotate-secret`, {}, { headers });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(again.body).toEqual(rotated.body);
    const repeated = await mine.call('POST', '/device/register', body, { headers });
    expect([repeated.status, repeated.body.code]).toEqual([409, 'CONFLICT']);
    await mine.call('POST', `/device/${id}/revoke`);
    const refused = await mine.call('POST', `/device/${id}/rotate-secret`, {}, { headers });
    expect([refused.status, refused.body.code]).toEqual([409, 'CONFLICT']);
  });

  it('are revoked repeatedly with the same response', async () => {
    const { device_id: id } = await mine.register();
    for (let n = 0; n < 2; n++) {
      const answer = await mine.call('POST', `/device/${id}/revoke`);
      expect([answer.status, answer.body]).toEqual([200, { device_id: id, status: 'revoked' }]);
    }
    const { device } = (await mine.call('GET', `/devices/${id}`)).body;
    expect(device).toMatchObject({ revoked: true, home_id: mine.homeId, room_id: null });
    const { keys } = (await mine.call('GET', `/device/${id}/key-history`)).body;
    expect(keys.map((key: { status: string }) => key.status)).toEqual(['revoked']);
    expect((await mine.call('GET', '/devices')).body.count).toBe(1);
  });

  it('are reinstated with a new key and the previous history', async () => {
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

  it('of a revoked device are found in its home and room, and again after a reinstatement', async () => {
    const { device_id: id } = await mine.register({ room_id: mine.roomId });
    await mine.call('POST', `/device/${id}/revoke`);
    const found = async (query: string) => (await mine.call('GET', `/devices?${query}`)).body.devices;
    const placed = { id, home_id: mine.homeId, room_id: mine.roomId };
    expect(await found(`room_id=${mine.roomId}&revoked=true`)).toMatchObject([{ ...placed, revoked: true }]);
    await mine.call('POST', `/device/${id}/reinstate`, { reason: 'found again' });
    expect(await found(`home_id=${mine.homeId}&room_id=${mine.roomId}`)).toMatchObject([{ ...placed, revoked: false }]);
    expect((await mine.call('DELETE', `/homes/${mine.homeId}`)).status).toBe(409);
  });

  it('lose the home of a revoked device with that home, and cannot be placed until they are reinstated', async () => {
    const { id: homeId } = (await mine.call('POST', '/homes', { home_name: 'Cabin' })).body;
    const { device_id: id } = await mine.register({ home_id: homeId });
    await mine.call('POST', `/device/${id}/revoke`);
    expect((await mine.call('DELETE', `/homes/${homeId}`)).status).toBe(204);
    const placed = async () => (await mine.call('GET', `/devices/${id}`)).body.device.home_id;
    expect(await placed()).toBeNull();
    const move = () => mine.call('PATCH', `/devices/${id}`, { home_id: mine.homeId });
    expect((await move()).body.code).toBe('DEVICE_REVOKED');
    await mine.call('POST', `/device/${id}/reinstate`, { reason: 'found again' });
    expect((await move()).status).toBe(200);
    expect(await placed()).toBe(mine.homeId);
  });

  it('can only be revoked during maintenance', async () => {
    const { device_id: id } = await mine.register();
    await service.flags.set('maintenance_mode', true);
    try {
      for (const path of ['rotate-secret', 'reinstate']) {
        const answer = await mine.call('POST', `/device/${id}/${path}`, path === 'reinstate' ? { reason: 'x' } : {});
        expect([answer.status, answer.body.code]).toEqual([503, 'MAINTENANCE']);
      }
      expect((await mine.call('POST', `/device/${id}/revoke`)).status).toBe(200);
    } finally {
      await service.flags.set('maintenance_mode', false);
    }
  });

  it('of another tenant are not found, and its stored responses are unchanged', async () => {
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

  it('require the role admin', async () => {
    const { device_id: id } = await mine.register();
    const token = mine.tokens.user;
    expect((await mine.call('POST', `/device/${id}/rotate-secret`, {}, { token })).status).toBe(403);
    expect((await mine.call('POST', `/device/${id}/revoke`, {}, { token })).status).toBe(403);
    expect((await mine.call('POST', `/device/${id}/reinstate`, { reason: 'x' }, { token })).status).toBe(403);
    expect((await mine.call('GET', `/device/${id}/key-history`, undefined, { token })).status).toBe(403);
  });
});
