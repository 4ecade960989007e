import { afterAll, beforeAll, expect, it } from 'vitest';
import { simulateLight } from '../../src/device/homes/light.ts';
import { type RunningDevice, startSimulatedDevice } from '../../src/device/homes/running-device.ts';
import { realEnvironment } from '../../src/device/homes/simulated-device.ts';
import { eventually } from '../support/clock.ts';
import { register, waitForCommand } from '../support/device.ts';
import { firmwareTestKey } from '../support/firmware-key.ts';
import { startService, type TestService } from '../support/service.ts';

// A device that was built with a public key installs only what the private key has signed, whatever the service sends.

const SIGNING = '/v1/firmware/signing';
const key = firmwareTestKey();
const foreign = firmwareTestKey();
const NOT_VERIFIED = 'no firmware key of this device verifies the signature';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let light: RunningDevice;
let deviceId: string;

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  const registered = await register(owner);
  deviceId = registered.device_id;
  const world = { ...realEnvironment(), pause: () => Promise.resolve() };
  light = await startSimulatedDevice(simulateLight(world), world, {
    mqttUrl: registered.mqtt_url,
    tenantId: registered.tenant_id,
    deviceId,
    secret: registered.device_secret,
    signingAlg: registered.signing_alg,
    backoff: { minMs: 20, maxMs: 200 },
    firmwareKeys: [key.publicKey],
  });
  await eventually(() => light.device.online);
});
afterAll(async () => {
  await light.stop();
  await at.stop();
});

const registerKey = async (publicKey: string, name: string) =>
  expect((await owner.post(`${SIGNING}/keys`, { public_key: publicKey, name })).status).toBe(201);

async function draftOf(version: string, bytes: Buffer): Promise<string> {
  const { id } = (await owner.post('/v1/firmware/release', { device_type: 'smart_light', version })).body;
  const uploaded = await fetch(`${at.url}/v1/firmware/${id}/artifact`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/octet-stream' },
    body: bytes,
  });
  expect(uploaded.status).toBe(200);
  return id;
}
const release = (id: string, signature?: string) =>
  owner.post(`/v1/firmware/${id}/release`, signature === undefined ? {} : { signature });

async function released(version: string, bytes: Buffer, signature?: string): Promise<string> {
  const id = await draftOf(version, bytes);
  expect((await release(id, signature)).status).toBe(200);
  return id;
}

async function update(firmware_id: string): Promise<string> {
  const path = `/v1/device/${deviceId}/command`;
  const requested = await owner.post(path, { action: 'update_firmware', params: { firmware_id } });
  const { dry_run_token, command_id } = requested.body;
  expect((await owner.post(`${path}/confirm`, { dry_run_token })).status).toBe(202);
  return command_id;
}
const ended = async (id: string) =>
  waitForCommand(owner, await update(id), ({ status }) => status === 'succeeded' || status === 'failed');
const firmware = async () => (await owner.get(`/v1/devices/${deviceId}`)).body.device.firmware;

it('a device built with a key refuses unsigned firmware', async () => {
  const done = await ended(await released('1.5.0', Buffer.from('unsigned')));
  expect(done).toMatchObject({ status: 'failed', error: 'the firmware is not signed' });
  expect(await firmware()).toBe('1.4.2');
});

it('installs firmware that the key has signed', async () => {
  await registerKey(key.publicKey, 'Release key');
  const bytes = Buffer.from('signed by the release key');
  const id = await draftOf('1.6.0', bytes);
  expect((await release(id)).body.code).toBe('FIRMWARE_SIGNATURE_REQUIRED');
  expect((await release(id, key.sign(bytes, { version: '1.6.0' }))).status).toBe(200);
  const done = await ended(id);
  expect(done).toMatchObject({ status: 'succeeded', result: { version: '1.6.0', bytes: bytes.length } });
  await eventually(async () => (await firmware()) === '1.6.0');
});

it('an old image is not released as a new version with its old signature', async () => {
  const bytes = Buffer.from('signed by the release key');
  const refused = await release(await draftOf('1.7.0', bytes), key.sign(bytes, { version: '1.6.0' }));
  expect(refused).toMatchObject({ status: 409, body: { code: 'FIRMWARE_SIGNATURE_INVALID' } });
});

it('refuses firmware signed by a key that an admin has added, but the device does not have', async () => {
  await registerKey(foreign.publicKey, 'Key of an intruder');
  const bytes = Buffer.from('signed by another key');
  const done = await ended(await released('1.8.0', bytes, foreign.sign(bytes, { version: '1.8.0' })));
  expect(done).toMatchObject({ status: 'failed', error: NOT_VERIFIED });
  expect(await firmware()).toBe('1.6.0');
});

it('refuses firmware whose stored version or signature was changed in the service', async () => {
  const bytes = Buffer.from('signed for 1.9.0');
  const id = await released('1.9.0', bytes, key.sign(bytes, { version: '1.9.0' }));
  const { store } = at.services;
  const stored = await store.firmware.findInAnyTenant(id);
  if (stored === null) throw new Error('the release is missing');
  // As an attacker with access to the database would combine an older signature with a new version.
  const old = key.sign(bytes, { version: '1.0.0' });
  await store.firmware.update({ ...stored, signature: old });
  expect(await ended(id)).toMatchObject({ status: 'failed', error: NOT_VERIFIED });
  expect(await firmware()).toBe('1.6.0');
});
