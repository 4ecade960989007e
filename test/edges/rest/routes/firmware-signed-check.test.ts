import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type HttpService, startHttpService } from '../../../support/http-service.ts';
import { type CheckFields, type CheckKey, signedCheck } from '../../../support/signed-check.ts';
import { makeTestTenant, type TestTenant } from '../../../support/test-tenant.ts';

const SUM = 'ab'.repeat(32);

let service: HttpService;
let mine: TestTenant;
let other: TestTenant;
beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
  other = await makeTestTenant(service);
  const release = { device_type: 'smart_light', version: '2.0.0', url: 'https://example.com/l.bin', checksum: SUM };
  const { id } = (await mine.call('POST', '/firmware/release', release)).body;
  await mine.call('POST', `/firmware/${id}/release`, {});
});
afterAll(() => service.close());

type Fields = CheckFields;
const request = (deviceId: string, key: CheckKey, more?: Fields, payload?: Fields): Fields =>
  signedCheck({ deviceId, tenantId: mine.tenantId, now: service.clock.now() }, key, more, payload);

const ask = (body: unknown) => service.call('POST', '/v1/firmware/check', { body });
const UPDATE = { update_available: true, target_version: '2.0.0', url: 'https://example.com/l.bin', checksum: SUM };

describe('a check for firmware that a device has signed', () => {
  it('is answered, with HMAC', async () => {
    const { device_id, device_secret } = await mine.register({ device_type: 'smart_light' });
    const { status, body } = await ask(request(device_id, device_secret));
    expect([status, body]).toEqual([200, UPDATE]);
    const newest = request(device_id, device_secret, {}, { current_version: '2.0.0' });
    expect((await ask(newest)).body.update_available).toBe(false);
  });

  it('is answered, with an Ed25519 key that the device made', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64url');
    const { device_id } = await mine.register({ device_type: 'smart_light', signing_alg: 'ed25519', public_key: raw });
    expect((await ask(request(device_id, privateKey))).body).toEqual(UPDATE);
    // The algorithm belongs to the key, and is not the sender's choice.
    expect((await ask(request(device_id, raw))).status).toBe(401);
  });

  it('is answered once for each request', async () => {
    const { device_id, device_secret } = await mine.register({ device_type: 'smart_light' });
    const sent = request(device_id, device_secret);
    const answers = await Promise.all([ask(sent), ask(sent), ask(sent)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 401, 401]);
    expect((await ask(sent)).body.code).toBe('UNAUTHENTICATED');
    expect((await ask(request(device_id, device_secret))).status).toBe(200);
  });

  it('is refused with a changed field, another key, or a text for another purpose', async () => {
    const [one, two] = [await mine.register(), await mine.register()];
    const good = () => request(one.device_id, one.device_secret);
    const wrong: Fields[] = [
      { ...good(), sequence_number: 1 },
      { ...good(), message_id: 'm2' },
      { ...good(), payload: { device_type: 'smart_light', current_version: '1.9.0' } },
      { ...good(), key_version: 2 },
      { ...good(), nonce: randomBytes(12).toString('base64url') },
      request(one.device_id, two.device_secret),
      request(one.device_id, one.device_secret, { tenant_id: other.tenantId }),
      request(one.device_id, one.device_secret, { client_id: `${two.device_id}.1.AAAAAAAAAAAAAAAA` }),
      request(one.device_id, one.device_secret, { timestamp: service.clock.now() - 121_000 }),
      request(one.device_id, one.device_secret, { timestamp: service.clock.now() + 121_000 }),
      request('0195d9a2-7f00-7000-8000-00000000ffff', one.device_secret),
    ];
    for (const body of wrong) expect((await ask(body)).body).toMatchObject({ status: 401, code: 'UNAUTHENTICATED' });
    const malformed: Fields[] = [
      { ...good(), message_type: 'session' },
      { ...good(), version: 'PROTO/3.0' },
      { ...good(), more: 1 },
      { ...good(), payload: { device_type: 'smart_light' } },
      { ...good(), message_id: 'a|b' },
    ];
    for (const body of malformed) expect((await ask(body)).body).toMatchObject({ status: 400 });
  });

  it('is refused once it is revoked, and with a key whose grace has ended', async () => {
    const { device_id, device_secret } = await mine.register({ device_type: 'smart_light' });
    const { new_secret } = (await mine.call('POST', `/device/${device_id}/rotate-secret`, {})).body;
    const withNew = () => ({ ...request(device_id, new_secret), key_version: 2 });
    expect((await ask(request(device_id, device_secret))).status).toBe(200);
    expect((await ask(withNew())).status).toBe(200);
    await mine.call('POST', `/device/${device_id}/rotate-secret`, {});
    expect((await ask(request(device_id, device_secret))).status).toBe(401);
    expect((await ask(withNew())).status).toBe(200);
    await mine.call('POST', `/device/${device_id}/revoke`, { reason: 'lost' });
    expect((await ask(withNew())).status).toBe(401);
  });

  it('names its own type', async () => {
    const { device_id, device_secret } = await mine.register({ device_type: 'smart_lock' });
    const { status, body } = await ask(request(device_id, device_secret));
    expect([status, body.errors]).toEqual([
      400,
      [{ path: 'payload.device_type', message: 'is not the type of this device' }],
    ]);
  });
});

it('a request with neither a credential nor a signature is 401', async () => {
  const { status, body } = await ask({ device_type: 'smart_light', current_version: '1.0.0' });
  expect([status, body.code]).toEqual([401, 'UNAUTHENTICATED']);
});

it('a version is compared as the device means it, and a text of another form is older than every release', async () => {
  const offered = async (current_version: string) =>
    (await mine.call('POST', '/firmware/check', { device_type: 'smart_light', current_version })).body;
  for (const older of ['1.0', 'v1.0', 'v1', '2024-3', '2024-10']) expect(await offered(older)).toEqual(UPDATE);
  const version: string = UPDATE.target_version;
  for (const same of [version, `v${version}`, `V${version}`, version.replace(/\.0$/, '')])
    expect(await offered(same)).toMatchObject({ update_available: false });
  expect(await offered('999.1')).toMatchObject({ update_available: false });
});
