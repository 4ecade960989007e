import { v7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { secretBinding } from '../../../../src/domain/device-key.ts';
import { publicKeyFromSeed } from '../../../../src/protocol/signature.ts';
import { mine, other, service, withTwoTenants } from '../two-tenants.ts';

withTwoTenants();
beforeEach(() => {
  service.services.settings.betaDeviceLimit = 0;
});

const publicKey = () =>
  publicKeyFromSeed(Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url'));

describe('POST /device/register', () => {
  it('returns every field of the contract, and the secret once', async () => {
    const body = { device_type: 'smart_light', home_id: mine.homeId, room_id: mine.roomId };
    const answer = await mine.call('POST', '/device/register', body);
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({
      status: 'registered',
      device_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      tenant_id: mine.tenantId,
      api_base_url: service.services.settings.apiBaseUrl,
      device_secret: expect.stringMatching(/^[\w-]{43}$/),
      initial_sequence: 1,
      home_id: mine.homeId,
      room_id: mine.roomId,
      key_version: 1,
      signing_alg: 'hmac-sha256',
      category: 'light',
      manifest_version: 1,
      mqtt_url: service.services.settings.mqttUrl,
      cloud_public_keys: service.services.settings.cloudPublicKeys,
    });
    const { device_id: id, device_secret: secret } = answer.body;
    const shown = [
      await mine.call('GET', `/devices/${id}`),
      await mine.call('GET', '/devices'),
      await mine.call('GET', `/device/${id}/key-history`),
      await mine.call('GET', `/devices/${id}/manifest`),
    ];
    const journal = await service.services.store.actors.journal({ kind: 'device', id }, 100);
    const stored = await service.services.store.actors.load('device', [id]);
    expect(JSON.stringify([shown.map((one) => one.body), journal, stored, service.errors])).not.toContain(secret);
  });

  it('gives a device the actions of the category that is named, whatever its type, and returns it', async () => {
    const plug = await mine.register({ device_type: 'esp32 plug', category: 'switch' });
    expect(plug).toMatchObject({ category: 'switch', manifest_version: 1 });
    const { body } = await mine.call('GET', `/devices/${plug.device_id}/manifest`);
    expect(body.category).toBe('switch');
    expect(body.capabilities[0]).toMatchObject({ action: 'turn_on', expectedState: { on: true } });
    expect(await mine.register({ device_type: 'smart_light', category: 'lock' })).toMatchObject({ category: 'lock' });
    expect(await mine.register({ device_type: 'esp32' })).toMatchObject({ category: null, manifest_version: null });
  });

  it('stores an HMAC secret sealed and bound to its context', async () => {
    const { device_id: id, device_secret: secret } = await mine.register();
    const [key] = await service.services.store.devices.keyHistory(id);
    expect(key?.sealedSecret).not.toContain(secret);
    expect(service.services.open(key?.sealedSecret ?? '', secretBinding(id, 1))).toBe(secret);
    expect(() => service.services.open(key?.sealedSecret ?? '', secretBinding(id, 2))).toThrow();
  });

  it('creates an Ed25519 key and stores its public half only', async () => {
    const { device_id: id, device_secret: seed } = await mine.register({ signing_alg: 'ed25519' });
    const [key] = await service.services.store.devices.keyHistory(id);
    expect(key).toMatchObject({ sealedSecret: null, publicKey: publicKeyFromSeed(seed), signingAlg: 'ed25519' });
  });

  it('returns no secret to a device that created its own key', async () => {
    const own = publicKey();
    const answer = await mine.register({ signing_alg: 'ed25519', public_key: own });
    expect(answer.device_secret).toBeNull();
    const [key] = await service.services.store.devices.keyHistory(answer.device_id);
    expect(key).toMatchObject({ sealedSecret: null, publicKey: own });
  });

  it.each([
    ['no device_type', { device_type: undefined }, 400, 'VALIDATION_FAILED'],
    ['a device_type of blanks', { device_type: '  ' }, 400, 'VALIDATION_FAILED'],
    ['an unknown field', { colour: 'red' }, 400, 'VALIDATION_FAILED'],
    ['an unknown category', { category: 'boat' }, 400, 'VALIDATION_FAILED'],
    ['an unknown algorithm', { signing_alg: 'none' }, 400, 'VALIDATION_FAILED'],
    ['a public key with HMAC', { public_key: publicKey() }, 400, 'VALIDATION_FAILED'],
    ['a public key that is none', { signing_alg: 'ed25519', public_key: 'AAAA' }, 400, 'VALIDATION_FAILED'],
    ['a weak public key', { signing_alg: 'ed25519', public_key: 'A'.repeat(43) }, 400, 'VALIDATION_FAILED'],
    ['metadata over 4 KiB', { metadata: { note: 'x'.repeat(4096) } }, 400, 'VALIDATION_FAILED'],
    ['a home that does not exist', { home_id: v7() }, 404, 'NOT_FOUND'],
    ['a home that is not a UUID', { home_id: 'nowhere' }, 404, 'NOT_FOUND'],
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

  it('requires the role admin', async () => {
    const body = { device_type: 'switch', home_id: mine.homeId };
    for (const role of ['user', 'viewer'] as const) {
      const answer = await mine.call('POST', '/device/register', body, { token: mine.tokens[role] });
      expect([answer.status, answer.body.code]).toEqual([403, 'FORBIDDEN_ROLE']);
    }
    expect((await mine.call('POST', '/device/register', body, { token: mine.tokens.admin })).status).toBe(201);
  });

  it.each([
    ['smart switch', 'switch'],
    ['esp32-relay', 'switch'],
    ['a microcontroller board', 'controller'],
  ])('finds the category of a %j and stores its manifest', async (deviceType, category) => {
    const { device_id: id } = await mine.register({ device_type: deviceType });
    expect((await mine.call('GET', `/devices/${id}`)).body).toMatchObject({ device: { device_type: deviceType } });
    expect(await mine.call('GET', `/devices/${id}/manifest`)).toMatchObject({ status: 200, body: { category } });
  });

  it('is refused under registration_lock', async () => {
    await service.flags.set('registration_lock', true);
    const answer = await mine.call('POST', '/device/register', { device_type: 'switch', home_id: mine.homeId });
    expect([answer.status, answer.body.code]).toEqual([503, 'REGISTRATION_LOCKED']);
    await service.flags.set('registration_lock', false);
  });

  it('returns the same response, including the secret, to a repeat with the same Idempotency-Key', async () => {
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
    service.services.settings.betaDeviceLimit = (await service.services.store.devices.countActive()) + spare;
  };
  const register = () => mine.call('POST', '/device/register', { device_type: 'switch', home_id: mine.homeId });

  it('accepts the last device and refuses the next', async () => {
    await limit(1);
    expect((await register()).status).toBe(201);
    const answer = await register();
    expect([answer.status, answer.body.code]).toEqual([503, 'BETA_LIMIT_REACHED']);
  });

  it('holds for ten concurrent registrations', async () => {
    await limit(3);
    const answers = await Promise.all(Array.from({ length: 10 }, register));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, ...Array(7).fill(503)]);
  });

  it('does not count revoked devices, and allows a reinstatement only below the limit', async () => {
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
