import { randomBytes } from 'node:crypto';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { simulateLight } from '../../src/device/homes/light.ts';
import { type RunningDevice, startSimulatedDevice } from '../../src/device/homes/running-device.ts';
import { realEnvironment } from '../../src/device/homes/simulated-device.ts';
import { eventually } from '../support/clock.ts';
import { register, waitForCommand } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let light: RunningDevice;
let deviceId: string;

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  const registered = await register(owner);
  deviceId = registered.device_id;
  // Pauses of motors and restarts take no time.
  const world = { ...realEnvironment(), pause: () => Promise.resolve() };
  light = await startSimulatedDevice(simulateLight(world), world, {
    mqttUrl: registered.mqtt_url,
    tenantId: registered.tenant_id,
    deviceId,
    secret: registered.device_secret,
    signingAlg: registered.signing_alg,
    backoff: { minMs: 20, maxMs: 200 },
  });
  await eventually(() => light.device.online);
});
afterAll(async () => {
  await light.stop();
  await at.stop();
});

const firmware = async () => (await owner.get(`/v1/devices/${deviceId}`)).body.device.firmware;

async function releaseOf(version: string, bytes: Buffer): Promise<string> {
  const draft = await owner.post('/v1/firmware/release', { device_type: 'smart_light', version });
  const { id } = draft.body;
  const uploaded = await fetch(`${at.url}/v1/firmware/${id}/artifact`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/octet-stream' },
    body: bytes,
  });
  expect(uploaded.status).toBe(200);
  expect((await owner.post(`/v1/firmware/${id}/release`, { rollout_percent: 100 })).status).toBe(200);
  return id;
}

async function update(firmware_id: string): Promise<string> {
  const path = `/v1/device/${deviceId}/command`;
  const requested = await owner.post(path, { action: 'update_firmware', params: { firmware_id } });
  expect(requested).toMatchObject({ status: 409, body: { code: 'DRY_RUN_REQUIRED' } });
  const { dry_run_token, command_id } = requested.body;
  expect((await owner.post(`${path}/confirm`, { dry_run_token })).status).toBe(202);
  return command_id;
}

it('a device receives an update command, downloads and verifies the firmware, and restarts with it', async () => {
  expect(await firmware()).toBe('1.4.2');
  const bytes = randomBytes(2_000_000);
  const id = await releaseOf('1.5.0', bytes);
  const check = await owner.post('/v1/firmware/check', {
    ...{ device_type: 'smart_light', current_version: await firmware(), device_id: deviceId },
  });
  expect(check.body).toMatchObject({ update_available: true, target_version: '1.5.0' });
  const commandId = await update(id);
  const done = await waitForCommand(
    owner,
    commandId,
    ({ status, verification }) => status === 'succeeded' && verification.status === 'verified',
  );
  expect(done).toMatchObject({ status: 'succeeded', timeout_s: 600 });
  expect(done.verification).toMatchObject({ expected: { firmware: '1.5.0' }, observed: { firmware: '1.5.0' } });
  expect(done.result).toEqual({ version: '1.5.0', bytes: bytes.length });
  await eventually(async () => (await firmware()) === '1.5.0');
  const again = { device_type: 'smart_light', current_version: '1.5.0', device_id: deviceId };
  expect((await owner.post('/v1/firmware/check', again)).body.update_available).toBe(false);
});

it('an artifact that differs from the release is not installed', async () => {
  const id = await releaseOf('1.6.0', Buffer.from('as it was built'));
  const folder = join(at.dataDir, 'firmware');
  // The artifact is modified on disk.
  for (const name of readdirSync(folder)) writeFileSync(join(folder, name), 'as somebody else wants it');
  const failed = await waitForCommand(owner, await update(id), ({ status }) => status === 'failed');
  expect(failed.error).toBe('the checksum does not match');
  expect(await firmware()).toBe('1.5.0');
});

it('an uploaded artifact is available after a restart, also at URLs signed before it', async () => {
  const id = await releaseOf('1.7.0', Buffer.from('kept'));
  const { url } = (await owner.get(`/v1/firmware/${id}`)).body.release;
  const { dataDir } = at;
  await light.stop();
  await at.service.stop();
  at = await startService({ DATA_DIR: dataDir });
  const moved = url.replace(/^http:\/\/[^/]+/, at.url);
  expect(await (await fetch(moved)).text()).toBe('kept');
});
