import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MAX_FIRMWARE_KEYS } from '../../../../src/domain/firmware-signing.ts';
import { type FirmwareTestKey, firmwareTestKey, sha256 } from '../../../support/firmware-key.ts';
import type { HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

const SIGNING = '/firmware/signing';
const CONTENT = Buffer.from('firmware of a light');
const EXTERNAL = { url: 'https://example.com/light.bin', checksum: sha256(CONTENT) };
const octets = { headers: { 'content-type': 'application/octet-stream' } };

let service: HttpService;
let mine: TestTenant;
let key: FirmwareTestKey;
const written: { message: { params: object; supplement?: object } }[] = [];

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  service.runtime.actors.subscribe('command.write', (output) => void written.push(output));
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  key = firmwareTestKey();
  written.length = 0;
});
afterAll(() => service.close());

const add = (one: FirmwareTestKey = key, sent = {}) =>
  mine.call('POST', `${SIGNING}/keys`, { public_key: one.publicKey, name: 'Release key' }, sent);
const registered = async (one = key) => expect((await add(one)).status).toBe(201);
const require = (signature_required: boolean) => mine.call('PATCH', SIGNING, { signature_required });
const remove = (id = key.keyId) => mine.call('DELETE', `${SIGNING}/keys/${id}`);

async function draft(more: object = {}): Promise<string> {
  const { status, body } = await mine.call('POST', '/firmware/release', {
    ...{ device_type: 'smart_light', version: '1.5.0', ...more },
  });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return body.id;
}
async function uploaded(more: object = {}, content = CONTENT): Promise<string> {
  const id = await draft(more);
  expect((await mine.call('PUT', `/firmware/${id}/artifact`, content, octets)).status).toBe(200);
  return id;
}
const release = (id: string, more: object = {}) => mine.call('POST', `/firmware/${id}/release`, more);
const isRequired = { status: 409, body: { code: 'FIRMWARE_SIGNATURE_REQUIRED' } };
const isInvalid = { status: 409, body: { code: 'FIRMWARE_SIGNATURE_INVALID' } };
const statusOf = async (id: string) => (await mine.call('GET', `/firmware/${id}`)).body.release.status;
const check = async () =>
  (await mine.call('POST', '/firmware/check', { device_type: 'smart_light', current_version: '1.0.0' })).body;

describe('a firmware key', () => {
  it('is registered, listed and removed by an admin, and makes signatures required', async () => {
    expect((await mine.call('GET', SIGNING)).body).toEqual({ signing: { signature_required: false, keys: [] } });
    const added = await add(key, { token: mine.tokens.admin });
    expect(added.status).toBe(201);
    expect(added.body).toEqual({
      status: 'added',
      key_id: key.keyId,
      key: {
        ...{ key_id: key.keyId, public_key: key.publicKey, name: 'Release key', added_by: expect.any(String) },
        created_at: new Date(service.clock.now()).toISOString(),
      },
    });
    const signing = (await mine.call('GET', SIGNING, undefined, { token: mine.tokens.viewer })).body.signing;
    expect(signing).toEqual({ signature_required: true, keys: [added.body.key] });
    const other = await makeTestTenant(service);
    expect((await other.call('GET', SIGNING)).body.signing.keys).toEqual([]);
    expect((await other.call('DELETE', `${SIGNING}/keys/${key.keyId}`)).status).toBe(404);
    expect((await remove()).status).toBe(204);
    expect((await remove()).status).toBe(404);
    expect((await remove('nothing')).status).toBe(404);
    expect((await mine.call('GET', SIGNING)).body).toEqual({ signing: { signature_required: true, keys: [] } });
  });

  it.each([
    [{ public_key: 'A'.repeat(43), name: 'Small order' }, 'public_key'],
    [{ public_key: 'x', name: 'Short' }, 'public_key'],
    [{ public_key: firmwareTestKey().pem, name: 'Private' }, 'public_key'],
    [{ public_key: firmwareTestKey().publicKey, name: ' ' }, 'name'],
    [{ public_key: firmwareTestKey().publicKey }, 'name'],
  ])('is refused as %j', async (body, path) => {
    const refused = await mine.call('POST', `${SIGNING}/keys`, body);
    expect(refused).toMatchObject({ status: 400, body: { errors: [{ path }] } });
  });

  it('is registered once, and a tenant has a limited number of them', async () => {
    await registered();
    const again = await add();
    expect(again).toMatchObject({ status: 409, body: { code: 'CONFLICT', detail: 'The key is registered already.' } });
    for (let n = 1; n < MAX_FIRMWARE_KEYS; n++) await registered(firmwareTestKey());
    expect(await add(firmwareTestKey())).toMatchObject({
      status: 409,
      body: { code: 'CONFLICT', detail: expect.stringContaining('the maximum') },
    });
  });

  it('is registered once for one Idempotency-Key', async () => {
    const headers = { 'Idempotency-Key': `firmware-${key.keyId}` };
    const first = await add(key, { headers });
    const again = await add(key, { headers });
    expect([again.status, again.body]).toEqual([201, first.body]);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
  });

  it('and the requirement are changed by persons with the role admin only, and audited', async () => {
    await registered();
    const apiKey = (await mine.call('POST', '/auth/api-keys', { name: 'CI', scopes: ['all'] })).body.key;
    const changes = [
      ['POST', `${SIGNING}/keys`, { public_key: firmwareTestKey().publicKey, name: 'Mine' }],
      ['DELETE', `${SIGNING}/keys/${key.keyId}`, undefined],
      ['PATCH', SIGNING, { signature_required: false }],
    ] as const;
    for (const [method, path, body] of changes) {
      const byKey = await mine.call(method, path, body, { token: apiKey });
      expect(byKey).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
      const byUser = await mine.call(method, path, body, { token: mine.tokens.user });
      expect(byUser).toMatchObject({ status: 403, body: { code: 'FORBIDDEN_ROLE' } });
    }
    expect((await mine.call('GET', SIGNING)).body.signing).toMatchObject({
      signature_required: true,
      keys: [{ key_id: key.keyId }],
    });
    await require(false);
    await require(true);
    await remove();
    const { entries } = (await mine.call('GET', '/audit?limit=50')).body;
    const done = entries.filter(({ outcome, action }: Record<string, string>) => {
      return outcome === 'done' && /firmware/i.test(action ?? '');
    });
    expect(done.map(({ action, subject }: Record<string, string>) => [action, subject])).toEqual([
      ['removeFirmwareKey', `firmware-key:${key.keyId}`],
      ['setFirmwareSigning', 'firmware-signatures:required'],
      ['setFirmwareSigning', 'firmware-signatures:not-required'],
      ['addFirmwareKey', `firmware-key:${key.keyId}`],
    ]);
  });
});

describe('where a signature is required', () => {
  beforeEach(() => registered());

  it('an uploaded artifact is released with its signature only', async () => {
    const id = await uploaded();
    expect(await release(id)).toMatchObject(isRequired);
    expect(await statusOf(id)).toBe('draft');
    const signature = key.sign(CONTENT);
    const { status, body } = await release(id, { signature, rollout_percent: 20 });
    expect(status).toBe(200);
    expect(body.release).toMatchObject({ status: 'released', size: CONTENT.length, signature, key_id: key.keyId });
    // The rollout of a signed release needs no further signature.
    expect(await release(id, { rollout_percent: 100 })).toMatchObject({
      status: 200,
      body: { release: { rollout_percent: 100, signature, key_id: key.keyId } },
    });
  });

  it('a draft can have its signature from the start, before the upload', async () => {
    const signature = key.sign(CONTENT);
    const id = await uploaded({ signature });
    expect((await mine.call('GET', `/firmware/${id}`)).body.release).toMatchObject({ signature, key_id: null });
    expect((await release(id)).body.release).toMatchObject({ status: 'released', key_id: key.keyId });
  });

  it('a file elsewhere is released with its signature and its size', async () => {
    const signature = key.sign(CONTENT);
    const id = await draft(EXTERNAL);
    expect(await release(id)).toMatchObject(isRequired);
    expect(await release(id, { signature })).toMatchObject({
      ...{ status: 409, body: { code: 'FIRMWARE_SIGNATURE_INVALID', detail: expect.stringContaining('send size') } },
    });
    expect(await release(id, { signature, size: CONTENT.length + 1 })).toMatchObject(isInvalid);
    const released = await release(id, { signature, size: CONTENT.length });
    expect(released.body.release).toMatchObject({ ...EXTERNAL, size: CONTENT.length, key_id: key.keyId });
    const complete = await draft({ ...EXTERNAL, version: '1.6.0', size: 1, signature });
    expect(await release(complete)).toMatchObject(isInvalid);
  });

  it.each([
    ['of an older version', { version: '1.4.0' }],
    ['for another device type', { deviceType: 'smart_lock' }],
    ['of another size', { size: 3 }],
  ])('a signature %s is refused', async (_, more) => {
    const id = await uploaded();
    expect(await release(id, { signature: key.sign(CONTENT, more) })).toMatchObject(isInvalid);
    expect(await statusOf(id)).toBe('draft');
  });

  it('a signature of another file, or by a key that is not registered, is refused', async () => {
    const id = await uploaded();
    expect(await release(id, { signature: key.sign(Buffer.from('another')) })).toMatchObject(isInvalid);
    expect(await release(id, { signature: firmwareTestKey().sign(CONTENT) })).toMatchObject(isInvalid);
    for (const signature of ['x', 'A'.repeat(85), `${key.sign(CONTENT)}=`]) {
      expect(await release(id, { signature })).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'signature' }] },
      });
    }
    // An artifact that is replaced after it was signed.
    const replaced = await uploaded({ version: '1.6.0', signature: key.sign(CONTENT, { version: '1.6.0' }) });
    await mine.call('PUT', `/firmware/${replaced}/artifact`, Buffer.from('replaced'), octets);
    expect(await release(replaced)).toMatchObject(isInvalid);
    expect(await release(id, { signature: key.sign(CONTENT) })).toMatchObject({ status: 200 });
  });

  it('size is that of an artifact, and belongs to a URL otherwise', async () => {
    const refused = await mine.call('POST', '/firmware/release', {
      ...{ device_type: 'smart_light', version: '2.0.0', size: 5 },
    });
    expect(refused).toMatchObject({ status: 400, body: { errors: [{ path: 'size' }] } });
    const id = await uploaded();
    const sized = await release(id, { signature: key.sign(CONTENT), size: CONTENT.length });
    expect(sized).toMatchObject({ status: 400, body: { errors: [{ path: 'size' }] } });
  });

  it('only what a registered key has signed is offered to devices', async () => {
    await require(false);
    await release(await uploaded({ version: '2.0.0' }));
    const signature = key.sign(CONTENT);
    await release(await uploaded(), { signature });
    expect(await check()).toMatchObject({ target_version: '2.0.0' });
    await require(true);
    const offered = { size: CONTENT.length, signature, key_id: key.keyId };
    expect(await check()).toMatchObject({ update_available: true, target_version: '1.5.0', ...offered });
    await remove();
    expect(await check()).toEqual({ update_available: false, target_version: null, url: null, checksum: null });
  });

  it('without a key nothing is released', async () => {
    await remove();
    const id = await uploaded();
    expect(await release(id)).toMatchObject(isRequired);
    expect(await release(id, { signature: key.sign(CONTENT) })).toMatchObject({
      ...{
        status: 409,
        body: { code: 'FIRMWARE_SIGNATURE_INVALID', detail: expect.stringContaining('no firmware key') },
      },
    });
  });

  it('a release by a removed key is signed again by the next one', async () => {
    const id = await uploaded();
    await release(id, { signature: key.sign(CONTENT), rollout_percent: 10 });
    const next = firmwareTestKey();
    await registered(next);
    await remove();
    expect(await release(id, { rollout_percent: 20 })).toMatchObject(isInvalid);
    const signed = await release(id, { signature: next.sign(CONTENT) });
    expect(signed.body.release).toMatchObject({ rollout_percent: 10, key_id: next.keyId });
  });
});

describe('where no signature is required', () => {
  it('releases need none, and a wrong one is refused all the same', async () => {
    expect((await release(await uploaded())).body.release).toMatchObject({ signature: null, key_id: null });
    const id = await uploaded({ version: '1.6.0' });
    expect(await release(id, { signature: key.sign(CONTENT) })).toMatchObject(isInvalid);
    expect(await release(id)).toMatchObject({ status: 200 });
  });

  it('it can be required before a key is registered', async () => {
    expect((await require(true)).body).toEqual({ signing: { signature_required: true, keys: [] } });
    expect(await release(await uploaded())).toMatchObject(isRequired);
  });

  it('a release by a removed key stays as it is', async () => {
    await registered();
    const id = await uploaded();
    await release(id, { signature: key.sign(CONTENT), rollout_percent: 10 });
    await remove();
    await require(false);
    expect((await release(id, { rollout_percent: 20 })).body.release).toMatchObject({ key_id: key.keyId });
  });
});

describe('update_firmware', () => {
  const update = (device: string, firmware_id: string) =>
    mine.call('POST', `/device/${device}/command`, { action: 'update_firmware', params: { firmware_id } });
  const confirm = (device: string, dry_run_token: string) =>
    mine.call('POST', `/device/${device}/command/confirm`, { dry_run_token });
  const refused = {
    status: 400,
    body: { code: 'PARAMS_INVALID', errors: [{ path: 'params.firmware_id' }] },
  };

  it('carries size, signature and key id of a signed release to the device', async () => {
    await registered();
    const signature = key.sign(CONTENT);
    const id = await draft({ ...EXTERNAL, size: CONTENT.length, signature });
    await release(id);
    const { device_id } = await mine.register();
    await mine.connect(device_id);
    const requested = await update(device_id, id);
    expect((await confirm(device_id, requested.body.dry_run_token)).status).toBe(202);
    expect(written.map(({ message }) => ({ ...message.params, ...message.supplement }))).toEqual([
      {
        ...{ firmware_id: id, version: '1.5.0', ...EXTERNAL },
        ...{ size: CONTENT.length, signature, key_id: key.keyId },
      },
    ]);
  });

  it('of an unsigned release is refused where a signature is required, also at the confirmation', async () => {
    const id = await draft(EXTERNAL);
    await release(id);
    const { device_id } = await mine.register();
    const requested = await update(device_id, id);
    expect(requested.status).toBe(409);
    await registered();
    const confirmed = await confirm(device_id, requested.body.dry_run_token);
    expect(confirmed.status).toBeGreaterThanOrEqual(400);
    expect(await update(device_id, id)).toMatchObject(refused);
    expect(written).toEqual([]);
  });

  it('of a release whose key was removed is refused', async () => {
    await registered();
    const id = await draft({ ...EXTERNAL, size: CONTENT.length, signature: key.sign(CONTENT) });
    await release(id);
    const { device_id } = await mine.register();
    const requested = await update(device_id, id);
    expect(requested.status).toBe(409);
    await remove();
    expect((await confirm(device_id, requested.body.dry_run_token)).status).toBeGreaterThanOrEqual(400);
    expect(await update(device_id, id)).toMatchObject(refused);
    expect(written).toEqual([]);
  });
});
