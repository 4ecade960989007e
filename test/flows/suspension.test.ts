import { connectAsync, type MqttClient } from 'mqtt';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Device } from '../../src/device/device.ts';
import { PLATFORM_SCOPE } from '../../src/services/tokens.ts';
import { connack, credentials } from '../edges/mqtt/client.ts';
import { eventually } from '../support/clock.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { deviceOf, mqttPortOf, rawClientOptions } from '../support/raw-device.ts';
import { type ApiClient, type ApiResponse, startService, type TestService } from '../support/service.ts';

type Owner = Awaited<ReturnType<TestService['owner']>>;

/** The code for "not authorized" in a CONNACK. */
const NOT_AUTHORIZED = 5;

let at: TestService;
let operator: ApiClient;
let parked: Owner;
let other: Owner;
let registered: ApiResponse['body'];
let device: Device;
let otherDevice: Device;
let listener: MqttClient;
const stream = { closed: 0 };

async function watch(): Promise<number> {
  const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${parked.token}`);
  return new Promise((resolve) => socket.once('close', resolve));
}

const listen = () =>
  connectAsync(`mqtt://127.0.0.1:${mqttPortOf(at)}`, {
    username: 'jwt',
    password: parked.token,
    reconnectPeriod: 0,
    protocolVersion: 4,
  });

/** As a platform operator, who has no tenant. */
async function turnTenant(verb: 'suspend' | 'resume', more: { notice?: string } = {}) {
  const texts = { reason: 'A test', ...more };
  const { status, body } = await operator.post(`/v1/admin/tenants/${parked.tenantId}/${verb}`, texts);
  if (status !== 200) throw new Error(JSON.stringify(body));
}

beforeAll(async () => {
  at = await startService();
  operator = at.api(await at.token('operator', { scope: PLATFORM_SCOPE }));
  parked = await at.owner();
  other = await at.owner();
  registered = await register(parked);
  const commands = { turn_on: () => new Promise<undefined>(() => {}), turn_off: () => undefined };
  device = await connect(registered, { commands });
  otherDevice = await connect(await register(other), { commands });
  listener = await listen();
  void watch().then((code) => {
    stream.closed = code;
  });
});
afterAll(async () => {
  listener.end(true);
  await Promise.all([device.close(0), otherDevice.close(0)]);
  await at.stop();
});

it('a suspended tenant: sessions end, users and devices are refused, deadlines continue', async () => {
  const path = `/v1/device/${registered.device_id}/command`;
  const written = (await parked.post(path, { action: 'turn_on', timeout_s: 20 })).body.command_id;
  await waitForCommand(parked, written, ({ status }) => status === 'acknowledged');
  const absent = await register(parked);
  const waiting = (await parked.post(`/v1/device/${absent.device_id}/command`, { action: 'turn_on', ttl_s: 10 })).body;
  const offline = new Promise((resolve) => device.once('offline', resolve));
  await turnTenant('suspend', { notice: 'Your subscription has ended.' });
  expect((await parked.get('/v1/devices')).body.code).toBe('TENANT_SUSPENDED');
  await offline;
  await eventually(() => !listener.connected);
  await eventually(() => stream.closed === 4403);
  expect(await watch()).toBe(4403);
  await expect(listen()).rejects.toMatchObject({ code: NOT_AUTHORIZED });
  expect(await connack(mqttPortOf(at), credentials(rawClientOptions(at), deviceOf(registered)))).toBe(NOT_AUTHORIZED);
  for (const answer of [
    await parked.get('/v1/devices'),
    await parked.post(path, { action: 'turn_on' }),
    await parked.post('/v1/homes', { home_name: 'Second' }),
    await parked.post('/ws/ticket'),
  ]) {
    expect(answer).toMatchObject({ status: 403, body: { code: 'TENANT_SUSPENDED' } });
  }
  const { body: me } = await parked.get('/v1/auth/me');
  expect(me).toMatchObject({ has_tenant: true, tenant_suspended: true });
  expect(me.suspension_notice).toBe('Your subscription has ended.');
  expect(JSON.stringify(me)).not.toContain('A test');
  expect((await other.get('/v1/auth/me')).body).not.toHaveProperty('tenant_suspended');

  const statusOf = (id: string) => at.services.actors.read({ kind: 'command', id });
  at.clock.advance(11_000);
  await eventually(async () => JSON.stringify(await statusOf(waiting.command_id)).includes('"expired"'));
  at.clock.advance(10_000);
  await eventually(async () => JSON.stringify(await statusOf(written)).includes('"timed_out"'));
});

it('another tenant is not affected', async () => {
  expect(otherDevice.online).toBe(true);
  const { body } = await other.post(`/v1/device/${otherDevice.deviceId}/command`, { action: 'turn_off' });
  await waitForCommand(other, body.command_id, ({ status }) => status === 'succeeded');
});

it('suspending it again changes at most the notice, and resuming it restores everything', async () => {
  await turnTenant('suspend');
  expect((await parked.get('/v1/auth/me')).body.suspension_notice).toBe('Your subscription has ended.');
  await turnTenant('suspend', { notice: 'Pay by Friday.' });
  expect((await parked.get('/v1/auth/me')).body).toMatchObject({
    ...{ tenant_suspended: true, suspension_notice: 'Pay by Friday.' },
  });
  await turnTenant('resume');
  expect((await parked.get('/v1/devices')).status).toBe(200);
  expect((await parked.get('/v1/auth/me')).body).not.toHaveProperty('suspension_notice');
  await turnTenant('resume');
  await eventually(() => device.online);
  const { body } = await parked.post(`/v1/device/${registered.device_id}/command`, { action: 'turn_off' });
  await waitForCommand(parked, body.command_id, ({ status }) => status === 'succeeded');
  expect((await parked.get(`/v1/devices/${registered.device_id}`)).body.device.online).toBe(true);
  const again = await listen();
  again.end(true);
});

it('a tenant that was suspended before a restart is suspended after it', async () => {
  await turnTenant('suspend');
  const { dataDir } = at;
  await at.service.stop();
  at = await startService({ DATA_DIR: dataDir });
  const parkedAgain = at.api(await at.token('owner-1'));
  expect(await parkedAgain.get('/v1/devices')).toMatchObject({ status: 403, body: { code: 'TENANT_SUSPENDED' } });
  expect(await connack(mqttPortOf(at), credentials(rawClientOptions(at), deviceOf(registered)))).toBe(NOT_AUTHORIZED);
});
