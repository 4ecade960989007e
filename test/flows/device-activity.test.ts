import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Device } from '../edges/mqtt/client.ts';
import { eventually } from '../support/clock.ts';
import { register } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
const speakers: Device[] = [];

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
});
afterAll(async () => {
  for (const { mqtt } of speakers) mqtt.end(true);
  await at.stop();
});

const activityOf = async (id: string) => (await owner.get(`/v1/devices/${id}/activity`)).body.activity;

it('a device without messages has no activity times and no messages', async () => {
  const { device_id: id } = await register(owner);
  const activity = await activityOf(id);
  expect(activity).toMatchObject({ device_id: id, state_at: null, properties: {}, messages: [], refused: 0 });
  expect(Date.parse(activity.since)).toBeLessThanOrEqual(at.clock.now());
});

it('messages are listed by type, time and reason of refusal, never with their content', async () => {
  const registered = await register(owner);
  const id = registered.device_id;
  const device = await connectRawDevice(at, registered);
  speakers.push(device);
  const messageId = randomUUID();
  await device.send(
    'state',
    { state: { on: true, level: 40, mode: 'secret' }, full: true },
    { sequence: 1, messageId },
  );
  const before = (await activityOf(id)).properties;
  at.clock.advance(5_000);
  await device.send(
    'state',
    { state: { on: true, level: 40, mode: 'secret' }, full: true },
    { sequence: 1, messageId },
  );
  await device.send('state', { state: { level: 50, mode: null } }, { sequence: 2 });
  await device.send('state', { state: { level: 60 } }, { sequence: 2 });
  await device.mqtt.publishAsync(device.topic('state'), 'no envelope', { qos: 1 });

  const activity = await activityOf(id);
  expect(activity.messages.map(({ at: _, ...message }: { at: string }) => message)).toEqual([
    { channel: 'state', sequence_number: null, outcome: 'refused', code: 'MALFORMED' },
    { channel: 'state', sequence_number: 2, outcome: 'refused', code: 'SEQUENCE_REUSED' },
    { channel: 'state', sequence_number: 2, outcome: 'accepted', code: null },
    { channel: 'state', sequence_number: 1, outcome: 'repeated', code: null },
    { channel: 'state', sequence_number: 1, outcome: 'accepted', code: null },
  ]);
  expect(JSON.stringify(activity)).not.toContain('secret');
  expect(Object.keys(activity.properties).sort()).toEqual(['level', 'on']);
  expect(activity.properties.on).toBe(before.on);
  expect(Date.parse(activity.properties.level) - Date.parse(before.level)).toBeGreaterThanOrEqual(5_000);
  expect(activity.state_at).toBe(activity.properties.level);
});

it('a report that arrives after a later one does not change the times that the later one set', async () => {
  const registered = await register(owner);
  const id = registered.device_id;
  const device = await connectRawDevice(at, registered);
  speakers.push(device);
  await device.send('state', { state: { on: true, level: 1 }, full: true }, { sequence: 1 });
  await device.send('state', { state: { level: 4 } }, { sequence: 4 });
  const before = (await activityOf(id)).properties;
  at.clock.advance(5_000);
  await device.send('state', { state: { level: 2, mode: 'eco' } }, { sequence: 2 });
  await device.send('state', { state: { level: 3, mode: 'boost' }, full: true }, { sequence: 3 });

  const { properties } = await activityOf(id);
  expect((await owner.get(`/v1/devices/${id}`)).body.device.state).toEqual({ level: 4, mode: 'boost' });
  expect(properties.level).toBe(before.level);
  expect(Date.parse(properties.mode) - Date.parse(before.level)).toBeGreaterThanOrEqual(5_000);
  expect(Object.keys(properties).sort()).toEqual(['level', 'mode']);
});

it('devices of another tenant are not visible', async () => {
  const outsider = await at.owner();
  const { device_id: id } = await register(owner);
  expect((await outsider.get(`/v1/devices/${id}/activity`)).status).toBe(404);
});

it('the activity of a device is deleted with its revocation', async () => {
  const registered = await register(owner);
  const id = registered.device_id;
  const device = await connectRawDevice(at, registered);
  speakers.push(device);
  await device.send('state', { state: { on: true }, full: true }, { sequence: 1 });
  expect((await activityOf(id)).messages).toHaveLength(1);
  await owner.post(`/v1/device/${id}/revoke`, {});
  expect(await activityOf(id)).toMatchObject({ messages: [], properties: {} });
});

it('the connection history has online, hello, firmware and offline, and is kept over a restart', async () => {
  const registered = await register(owner);
  const id = registered.device_id;
  const device = await connectRawDevice(at, registered);
  const hello = { protocol: 'PROTO/3.1', firmware: '1.0.0' };
  await device.send('hello', hello);
  await device.send('hello', hello);
  await device.send('hello', { ...hello, firmware: '1.1.0' });
  device.mqtt.end(true);
  const history = async (caller: ApiClient) => {
    const { activity } = (await caller.get(`/v1/devices/${id}/activity`)).body;
    return activity.connections.map(({ at: _, ...event }: { at: string }) => Object.values(event));
  };
  await eventually(async () => (await history(owner))[0]?.[0] === 'offline');
  const first = [
    ['hello', '1.0.0', null],
    ['firmware', '1.0.0', null],
  ];
  const known = await history(owner);
  expect(known.slice(0, 4)).toEqual([
    ['offline', null, null],
    ['firmware', '1.1.0', '1.0.0'],
    ['hello', '1.1.0', null],
    ['hello', '1.0.0', null],
  ]);
  // The first message makes the device online, in the same commit.
  expect(known.slice(4)).toEqual(expect.arrayContaining([...first, ['online', null, null]]));
  expect(known).toHaveLength(7);
  const { dataDir } = at;
  const { token } = owner;
  await at.service.stop();
  at = await startService({ DATA_DIR: dataDir });
  expect(await history(at.api(token))).toEqual(known);
});
