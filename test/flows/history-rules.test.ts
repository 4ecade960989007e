import { afterAll, beforeAll, expect, it } from 'vitest';
import { dayOf } from '../../src/domain/day.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { HistoryCompaction } from '../../src/services/history-compaction.ts';
import type { Device } from '../edges/mqtt/client.ts';
import { runCliInProcess } from '../support/cli.ts';
import { register } from '../support/device.ts';
import { callTool, mcpClient, structured } from '../support/mcp.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { startService, type TestService } from '../support/service.ts';

const HOUR = 3_600_000;

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
const devices: Device[] = [];

beforeAll(async () => {
  at = await startService({ HISTORY_DAY_MIB: '1' });
  owner = await at.owner();
});
afterAll(async () => {
  for (const { mqtt } of devices) mqtt.end(true);
  await at.stop();
});

async function connected(properties?: object) {
  const registered = await register(owner);
  const id = registered.device_id as string;
  if (properties !== undefined) {
    const { status } = await owner.post(`/v1/devices/${id}/manifest`, { category: 'light', properties });
    expect(status).toBe(201);
  }
  let device = await connectRawDevice(at, registered);
  devices.push(device);
  let sequence = 0;
  const send = (channel: 'state' | 'heartbeat', payload: JsonObject) =>
    device.send(channel, payload, { sequence: ++sequence });
  return {
    id,
    report: (state: JsonObject) => send('state', { state }),
    heartbeat: (payload: JsonObject) => send('heartbeat', payload),
    hello: (payload: JsonObject) => device.send('hello', { protocol: 'PROTO/3.1', firmware: '1.0.0', ...payload }),
    async reconnect() {
      device.mqtt.end(true);
      device = await connectRawDevice(at, registered);
      devices.push(device);
    },
  };
}

async function values(id: string, property: string): Promise<unknown[]> {
  const query = new URLSearchParams({ property, step: 'raw' });
  const { status, body } = await owner.get(`/v1/devices/${id}/history?${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.history.samples.map(({ value }: { value: unknown }) => value);
}

/** The values of an export of properties, one after the other. */
async function exported(id: string, ...properties: string[]): Promise<unknown[]> {
  const query = new URLSearchParams(properties.map((property): [string, string] => ['property', property]));
  const headers = { authorization: `Bearer ${owner.token}` };
  const response = await fetch(`${at.url}/v1/devices/${id}/history/export?${query}`, { headers });
  expect(response.status).toBe(200);
  const lines = (await response.text()).split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line).value);
}

/** The values of each series of a query. */
async function queried(selection: object): Promise<unknown[][]> {
  const { status, body } = await owner.post('/v1/history/query', { ...selection, step: 'raw' });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.series.map(({ samples }: { samples: { value: unknown }[] }) => samples.map(({ value }) => value));
}

/** Compacts all reports of the device. */
async function compact(id: string): Promise<void> {
  const { clock, store, log } = at.services;
  const compaction = new HistoryCompaction({ store, clock, log, shards: () => null });
  for (let n = 0; n < 500; n += 1) compaction.recordReport(id, owner.tenantId, 60);
  await compaction.compactBusy();
  expect((await store.history.tail(id, 10, 1e6)).rows).toEqual([]);
}

/** The texts of the reports that are stored and not compacted. */
const storedTexts = async (id: string): Promise<string> =>
  (await at.services.store.history.tail(id, 1_000, 1e8)).rows.map(({ text }) => text).join('\n');

it('the manifest decides which samples are kept, before and after compaction, and after a restart', async () => {
  const { id, report, reconnect } = await connected({
    'climate.temperature': { label: 'Room', unit: '°C', history: 'change', deadband: 0.5 },
    mode: { history: 'change' },
    secret: { history: 'off' },
  });
  await report({ climate: { temperature: 20 }, mode: 'eco', secret: 'hidden-1', level: 1 });
  await report({ climate: { temperature: 20.5 }, mode: 'eco', secret: { pin: 'hidden-2' }, level: 1 });
  await report({ secret: 'hidden-3' });
  const stored = await storedTexts(id);
  expect(stored).toContain('"level":1');
  expect(stored).not.toContain('hidden');
  await compact(id);

  const { dataDir } = at;
  await at.service.stop();
  at = await startService({ DATA_DIR: dataDir, HISTORY_DAY_MIB: '1' });
  owner = { ...owner, ...at.api(owner.token) };
  await reconnect();
  await report({ climate: { temperature: 20.6 }, mode: 'heat', level: 1 });
  await report({ climate: { temperature: 20.2 }, mode: 'heat' });
  const expectKept = async () => {
    expect(await values(id, 'climate.temperature')).toEqual([20, 20.6]);
    expect(await values(id, 'mode')).toEqual(['eco', 'heat']);
    expect(await values(id, 'level')).toEqual([1, 1, 1]);
    expect(await values(id, 'secret')).toEqual([]);
    expect(await values(id, 'secret.pin')).toEqual([]);
  };
  await expectKept();
  await compact(id);
  await expectKept();
  expect((await owner.get(`/v1/devices/${id}`)).body.device.state).toMatchObject({ mode: 'heat', secret: 'hidden-3' });
});

it('a device whose properties are all off stores no row', async () => {
  const { id, report } = await connected({ level: { history: 'off' }, $telemetry: { history: 'off' } });
  await report({ level: 1 });
  await report({ level: { inner: 2 } });
  expect(await storedTexts(id)).toBe('');
});

it('properties of the manifest are shown on every wire, and refused if they are not valid', async () => {
  const properties = { level: { label: 'Water', unit: 'cm', history: 'change', deadband: 2 } };
  const { id } = await connected(properties);
  const path = `/v1/devices/${id}/manifest`;
  expect((await owner.get(path)).body.properties).toEqual(properties);
  const { body } = await owner.post('/graphql', { query: `{ device(id: "${id}") { manifest { properties } } }` });
  expect(body.data.device.manifest.properties).toEqual(properties);
  const printed = await runCliInProcess(['manifests', 'get', id], { url: at.url, token: owner.token });
  expect(printed.stdout).toMatch(/level\s+Water\s+cm\s+change, deadband 2/);

  const refused = await owner.put(path, {
    ...{ version: 2, category: 'light' },
    properties: { level: { deadband: 1 }, $x: {} },
  });
  expect(refused).toMatchObject({ status: 400, body: { code: 'VALIDATION_FAILED' } });
  expect(refused.body.errors.map((error: { path: string }) => error.path)).toEqual([
    ...['properties.level.deadband', 'properties.$x'],
  ]);
  expect((await owner.put(path, { version: 2, category: 'light' })).body).not.toHaveProperty('properties');

  await owner.put(path, { version: 3, category: 'light', properties });
  // A token that was presented at /mcp cannot change a manifest afterwards.
  const client = await mcpClient(at.url, owner.token);
  const shown = await callTool(client, 'get_device_capabilities', { device_id: id });
  expect(structured(shown).properties).toEqual(properties);
  await client.close();
});

it('telemetry has samples at once, apart from properties of the same name', async () => {
  const { id, report, heartbeat, hello } = await connected();
  await hello({ uptime_s: 5 });
  expect(await storedTexts(id)).toContain('"uptime_s":5');
  const before = await storedTexts(id);
  await heartbeat({ rssi: -61, battery: 80, uptime_s: 65 });
  await heartbeat({ rssi: -62 });
  expect(await storedTexts(id)).toBe(before);
  expect(await values(id, '$telemetry.rssi')).toEqual([-61, -62]);
  expect(await exported(id, '$telemetry.rssi', '$telemetry.battery')).toEqual([-61, -62, 80]);
  const other = await connected();
  await other.heartbeat({ rssi: -70 });
  const ids = [other.id, id];
  const paths = ['$telemetry.rssi', 'level'];
  const series = ids.flatMap((device_id) => paths.map((property) => ({ device_id, property })));
  expect(await queried({ series })).toEqual([[-70], [], [-61, -62], []]);
  const selected = { devices: { category: 'light' }, properties: ['$telemetry.rssi'], max_series: 2 };
  expect(await queried(selected)).toEqual([[-70], [-61, -62]]);
  await report({ $telemetry: { rssi: 1 }, telemetry: { rssi: 2 } });
  expect(await storedTexts(id)).toContain('"rssi":-62');
  for (const prepare of [async () => {}, () => compact(id)]) {
    await prepare();
    expect(await values(id, '$telemetry.rssi')).toEqual([-61, -62]);
    expect(await values(id, '$telemetry.battery')).toEqual([80]);
    expect(await values(id, '$telemetry.uptime_s')).toEqual([5, 65]);
    expect(await values(id, '\\$telemetry.rssi')).toEqual([1]);
    expect(await values(id, 'telemetry.rssi')).toEqual([2]);
    expect(await exported(id, '$telemetry.rssi', '\\$telemetry.rssi')).toEqual([-61, -62, 1]);
    expect(await queried({ series })).toEqual([[-70], [], [-61, -62], []]);
  }
  for (const path of ['history', 'history/export'])
    expect((await owner.get(`/v1/devices/${id}/${path}?property=$rssi`)).status).toBe(400);
  const reserved = await owner.post('/v1/history/query', { series: [{ device_id: id, property: '$rssi' }] });
  expect(reserved).toMatchObject({ status: 400, body: { errors: [{ path: 'series.0.property' }] } });
});

it('a device that reports more than it may store a day leaves no samples, and its twin follows', async () => {
  // All reports are of one day.
  const now = at.clock.now();
  if (dayOf(now + HOUR) !== dayOf(now)) at.clock.advance(HOUR);
  const { id, report } = await connected();
  const text = 'x'.repeat(30_000);
  for (let n = 0; n < 34; n += 1) await report({ n, text });
  expect((await owner.get(`/v1/devices/${id}`)).body.device.history_paused_until).toBeNull();
  await report({ n: 34, text });
  await report({ n: 35 });
  const { device } = (await owner.get(`/v1/devices/${id}`)).body;
  expect(device.state.n).toBe(35);
  const until = Date.parse(device.history_paused_until);
  expect(until % 86_400_000).toBe(0);
  expect(until).toBeGreaterThan(at.clock.now());
  expect(await values(id, 'n')).toEqual(Array.from({ length: 34 }, (_, n) => n));
  const { body } = await owner.post('/graphql', { query: `{ device(id: "${id}") { historyPausedUntil } }` });
  expect(Date.parse(body.data.device.historyPausedUntil)).toBe(until);
  const metrics = await (await fetch(`${at.url}/metrics`)).text();
  expect(metrics).toContain('twinkeep_history_samples_dropped_total{reason="bytes"} 2');
});
