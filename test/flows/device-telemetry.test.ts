import { afterAll, beforeAll, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { runCliInProcess } from '../support/cli.ts';
import { eventually } from '../support/clock.ts';
import { register } from '../support/device.ts';
import { callTool, mcpClient, structured } from '../support/mcp.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';
import { waitUntilAuthorized } from '../support/wait-until-authorized.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
});
afterAll(() => at.stop());

const hello = { protocol: 'PROTO/3.1', firmware: '1.4.2' };
const telemetryOf = async (id: string, caller: ApiClient = owner) =>
  (await caller.get(`/v1/devices/${id}`)).body.device.telemetry;

it('what a device reports about itself is shown on every wire, and a mismatch is named', async () => {
  const registered = await register(owner);
  const id = registered.device_id;
  expect(await telemetryOf(id)).toBeNull();
  const socket = new WebSocket(
    `${at.url.replace('http', 'ws')}/ws/state?token=${owner.token}&events=telemetry&device_id=${id}`,
  );
  const updates: object[] = [];
  socket.on('message', (data) => {
    if (String(data) !== 'pong') updates.push(JSON.parse(String(data)));
  });
  await waitUntilAuthorized(socket);

  const device = await connectRawDevice(at, registered);
  await device.send('hello', { ...hello, device_type: 'toaster', manifest_version: 99, uptime_s: 5 });
  const signedAt = at.clock.now() - 90_000;
  const heartbeat = { rssi: -61, uptime_s: 65, battery: 80, free_heap: 143_360, unknown: 1 };
  await device.send('heartbeat', heartbeat, { timestamp: signedAt });
  const shown = {
    ...{ rssi: -61, uptime_s: 65, free_heap: 143_360, device_type: 'toaster', manifest_version: 99 },
    mismatches: ['device_type', 'manifest_version'],
  };
  expect(await telemetryOf(id)).toEqual(shown);

  await eventually(() => updates.length === 2);
  const times = { timestamp: expect.any(Number), device_timestamp: expect.any(Number) };
  const update = { type: 'telemetry_update', device_id: id, ...times };
  expect(updates).toEqual([
    { ...update, device_type: 'toaster', manifest_version: 99, uptime_s: 5 },
    { ...update, battery: 80, rssi: -61, uptime_s: 65, free_heap: 143_360, device_timestamp: signedAt },
  ]);
  socket.terminate();

  const query = `{ device(id: "${id}") { telemetry { rssi uptimeS freeHeap deviceType manifestVersion mismatches } } }`;
  const { data } = (await owner.post('/graphql', { query })).body;
  expect(data.device.telemetry).toEqual({
    ...{ rssi: -61, uptimeS: 65, freeHeap: 143_360, deviceType: 'toaster', manifestVersion: 99 },
    mismatches: ['DEVICE_TYPE', 'MANIFEST_VERSION'],
  });

  const client = await mcpClient(at.url, owner.token);
  const detail = structured(await callTool(client, 'get_device_detail', { device_id: id }));
  expect(detail.device.telemetry).toEqual(shown);
  await client.close();

  const printed = await runCliInProcess(['devices', 'get', id], { url: at.url, token: owner.token });
  expect(printed.stdout).toContain(`telemetry`);
  expect(printed.stdout).toContain('"mismatches":["device_type","manifest_version"]');
  device.mqtt.end(true);
});

it('a hello without type and version ends a mismatch, and a mistyped value is refused and changes nothing', async () => {
  const registered = await register(owner);
  const id = registered.device_id;
  const device = await connectRawDevice(at, registered);
  await device.send('hello', { ...hello, device_type: 'toaster' });
  expect((await telemetryOf(id)).mismatches).toEqual(['device_type']);
  await device.send('heartbeat', { rssi: 'loud', free_heap: 7 });
  await eventually(() => device.received.some(({ type }) => type === 'error'));
  expect(device.received.find(({ type }) => type === 'error')).toMatchObject({ payload: { code: 'PAYLOAD_INVALID' } });
  expect(await telemetryOf(id)).toMatchObject({ rssi: null, free_heap: null });
  await device.send('hello', hello);
  await device.send('heartbeat', { rssi: -50 });
  expect(await telemetryOf(id)).toMatchObject({ rssi: -50, device_type: null, mismatches: [] });
  await device.send('hello', { ...hello, device_type: 'smart_light', manifest_version: 1 });
  expect(await telemetryOf(id)).toMatchObject({ device_type: 'smart_light', manifest_version: 1, mismatches: [] });
  device.mqtt.end(true);
});

it('telemetry survives a restart of the service', async () => {
  const registered = await register(owner);
  const device = await connectRawDevice(at, registered);
  await device.send('heartbeat', { rssi: -72, free_heap: 9_000 });
  device.mqtt.end(true);
  const { dataDir } = at;
  const { token } = owner;
  await at.service.stop();
  at = await startService({ DATA_DIR: dataDir });
  expect(await telemetryOf(registered.device_id, at.api(token))).toMatchObject({ rssi: -72, free_heap: 9_000 });
});
