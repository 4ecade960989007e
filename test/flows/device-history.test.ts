import { afterAll, beforeAll, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { dayOf } from '../../src/domain/day.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { HistoryCompaction } from '../../src/services/history-compaction.ts';
import type { Device } from '../edges/mqtt/client.ts';
import { eventually } from '../support/clock.ts';
import { register } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';
import { waitUntilAuthorized } from '../support/wait-until-authorized.ts';

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 86_400_000;

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
const devices: Device[] = [];

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
});
afterAll(async () => {
  for (const { mqtt } of devices) mqtt.end(true);
  await at.stop();
});

async function connected() {
  const registered = await register(owner);
  const device = await connectRawDevice(at, registered);
  devices.push(device);
  let sequence = 0;
  return {
    id: registered.device_id as string,
    report: (state: JsonObject, time?: number) =>
      device.send('state', { state }, { sequence: ++sequence, ...(time !== undefined && { timestamp: time }) }),
  };
}

const iso = (time: number) => new Date(time).toISOString();

async function read(id: string, query: Record<string, string>, api: ApiClient = owner) {
  const { status, body } = await api.get(`/v1/devices/${id}/history?${new URLSearchParams(query)}`);
  expect(body).toEqual(expect.objectContaining({ history: expect.anything() }));
  expect(status).toBe(200);
  return body.history;
}

it('an acknowledged report is in the history at once, on REST and GraphQL, at the time that the device signed', async () => {
  const { id, report } = await connected();
  const late = at.clock.now() - 2 * MINUTE;
  await report({ climate: { temperature: 21.5 }, on: true, note: 'x'.repeat(65), 'a.b': 1 });
  await report({ climate: { temperature: 20.25 } }, late);
  const history = await read(id, { property: 'climate.temperature', step: 'raw' });
  expect(history.samples.map(({ value }: { value: number }) => value)).toEqual([20.25, 21.5]);
  expect(history.samples[0]).toMatchObject({ at: iso(late), sequence_number: 2 });
  expect(Date.parse(history.samples[0].received_at)).toBeGreaterThan(late);
  expect((await read(id, { property: 'a\\.b', step: 'raw' })).samples).toHaveLength(1);
  expect((await read(id, { property: 'note', step: 'raw' })).samples).toEqual([]);
  expect((await read(id, { property: 'on', step: 'changes' })).samples).toMatchObject([{ value: true }]);

  const hour = await read(id, { property: 'climate.temperature', step: '1d', agg: 'min,mean,count' });
  const points = hour.points.filter(({ count }: { count: number }) => count > 0);
  expect(points.reduce((sum: number, one: { count: number }) => sum + one.count, 0)).toBe(2);
  expect(points.at(-1)).toMatchObject({ max: null, last: null, states: null });

  const query = `query ($id: ID!) { deviceHistory(id: $id, property: "climate.temperature", step: "raw") {
    source samples { value sequenceNumber } } }`;
  const { body } = await owner.post('/graphql', { query, variables: { id } });
  expect(body.data.deviceHistory).toEqual({
    source: 'samples',
    samples: [
      { value: 20.25, sequenceNumber: 2 },
      { value: 21.5, sequenceNumber: 1 },
    ],
  });
});

it('intervals and changes name the value before their range, as it may have lasted', async () => {
  const { id, report } = await connected();
  const now = at.clock.now();
  await report({ target: 19, mode: 'eco' }, now - 3 * MINUTE);
  await report({ target: 20 }, now - 2 * MINUTE);
  const from = iso(now - 90_000);
  for (const step of ['10s', 'changes']) {
    expect(await read(id, { property: 'target', step, from }), step).toMatchObject({ before: 20 });
    expect(await read(id, { property: 'mode', step, from }), step).toMatchObject({ before: 'eco' });
  }
  expect((await read(id, { property: 'target', step: 'raw', from })).before).toBeNull();
  expect((await read(id, { property: 'target', step: '1m' })).before).toBeNull();
  const query = `query ($id: ID!) { deviceHistory(id: $id, property: "target", step: "10s", from: "${from}") { before } }`;
  const { body } = await owner.post('/graphql', { query, variables: { id } });
  expect(body.data).toEqual({ deviceHistory: { before: 20 } });
});

it('a live chart continues the history with the updates of reports, also of late ones', async () => {
  const { id, report } = await connected();
  await report({ level: 1, on: true });
  const updates: JsonObject[] = [];
  const socket = new WebSocket(
    `${at.url.replace('http', 'ws')}/ws/state?token=${owner.token}&events=report&device_id=${id}`,
  );
  socket.on('message', (data) => {
    if (String(data) !== 'pong') updates.push(JSON.parse(String(data)));
  });
  await waitUntilAuthorized(socket);
  const before = (await read(id, { property: 'level', step: 'raw' })).samples;
  const late = at.clock.now() - MINUTE;
  await report({ level: 2 });
  await report({ level: 3, on: null }, late);
  await eventually(() => updates.length === 2);
  socket.terminate();
  expect(updates[1]).toEqual({
    ...{ type: 'report_update', device_id: id, report: { level: 3, on: null } },
    ...{ device_timestamp: late, sequence_number: 3, timestamp: expect.any(Number) },
  });
  const live = updates.map(({ report, device_timestamp, sequence_number, timestamp }) => ({
    ...{ at: iso(device_timestamp as number), value: (report as JsonObject).level },
    ...{ received_at: iso(timestamp as number), sequence_number },
  }));
  const { samples } = await read(id, { property: 'level', step: 'raw' });
  const ordered = [...before, ...live].sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
  expect(ordered).toEqual(samples);
});

it('a refused report, and one that was sent twice, leave no further sample', async () => {
  const registered = await register(owner);
  const device = await connectRawDevice(at, registered);
  devices.push(device);
  const message = { sequence: 1, messageId: 'one' };
  await device.send('state', { state: { level: 1 } }, message);
  await device.send('state', { state: { level: 1 } }, message);
  await device.send('state', { state: { level: 2 } }, { sequence: 1 });
  const { samples } = await read(registered.device_id, { property: 'level', step: 'raw' });
  expect(samples).toMatchObject([{ value: 1, sequence_number: 1 }]);
});

it('another tenant does not find the history, and a range or a step that is not valid is refused', async () => {
  const { id } = await connected();
  const other = await at.owner();
  expect((await other.get(`/v1/devices/${id}/history?property=level`)).status).toBe(404);
  for (const query of [
    '',
    'property=a&step=1w',
    'property=a&agg=sum',
    'property=a&step=1s',
    'property=a&from=2030-01-01T00:00:00Z',
  ])
    expect((await owner.get(`/v1/devices/${id}/history?${query}`)).status, query).toBe(400);
});

it('a range ends ten minutes from now, and a step may need only so many roll-ups', async () => {
  const { id, report } = await connected();
  await report({ level: 1, door: 'open' });
  await report({ level: 2, door: 'open' }, at.clock.now() + 4 * MINUTE);
  await report({ level: 3, door: 'closed' }, at.clock.now() + 4 * MINUTE + 1);
  const latest = at.clock.now() + 10 * MINUTE;
  const ahead = await read(id, { property: 'level', step: 'raw' });
  expect(ahead.samples).toHaveLength(3);
  for (const step of ['raw', 'changes']) {
    const history = await read(id, { property: 'level', step, to: '9999-12-31T23:59:59Z' });
    expect(Date.parse(history.to), step).toBeGreaterThanOrEqual(latest);
    expect(Date.parse(history.to), step).toBeLessThanOrEqual(at.clock.now() + 10 * MINUTE);
    expect(history).toMatchObject({ samples: { length: 3 }, next_from: null });
  }
  const from = ahead.samples[1].at;
  expect((await read(id, { property: 'door', step: 'changes', from })).samples).toMatchObject([{ value: 'closed' }]);
  const everything = { property: 'level', from: '1970-01-01T00:00:00Z', to: '9999-12-31T23:59:59Z' };
  expect((await read(id, everything)).step).toBe('30d');
  expect((await read(id, { ...everything, step: '99999d' })).points).toMatchObject([{ count: 3 }]);
  const months = { property: 'level', from: iso(at.clock.now() - 60 * DAY) };
  const { status, body } = await owner.get(
    `/v1/devices/${id}/history?${new URLSearchParams({ ...months, step: '59m' })}`,
  );
  expect(status).toBe(400);
  expect(body.errors).toEqual([{ path: 'step', message: expect.stringContaining('multiple of 15m, 1h or 1d') }]);
  expect((await read(id, { ...months, step: '45m' })).points).not.toEqual([]);
});

it('a GraphQL document reads few histories, as each may be long', async () => {
  const { id, report } = await connected();
  await report({ level: 1 });
  const history = `deviceHistory(id: "${id}", property: "level", step: "1h") {
    points { at count min max mean last states { state ms } } }`;
  const post = (aliases: string[]) =>
    owner.post('/graphql', { query: `{ ${aliases.map((alias) => `${alias}: ${history}`).join(' ')} }` });
  const one = await post(['a']);
  expect(one.body.data.a.points).toMatchObject([{ count: 1, min: 1 }]);
  const two = await post(['a', 'b']);
  expect(two.status).toBe(400);
  expect(two.body.errors[0].message).toContain('points');
});

it('over a month samples are rolled up and expire, and the roll-ups stay readable', async () => {
  const { services, clock } = at;
  const registered = await register(owner);
  const id = registered.device_id;
  const { store, log } = services;
  // Tokens expire.
  const { body: created } = await owner.post('/v1/auth/api-keys', { name: 'history', scopes: ['read:history'] });
  const later = at.api(created.key);
  const compaction = new HistoryCompaction({ store, clock, log, shards: () => null });
  const first = dayOf(clock.now()) + 1;
  let sequence = 0;
  for (let day = first; day < first + 31; day += 1) {
    const noon = day * DAY + 12 * HOUR;
    clock.set(noon);
    // A session lasts a day.
    const device = await connectRawDevice(at, registered);
    devices.push(device);
    for (let n = 0; n < 4; n += 1) {
      sequence += 1;
      await device.send(
        'state',
        { state: { level: day - first + n, on: n % 2 === 0 } },
        { sequence, timestamp: noon + n * MINUTE },
      );
      clock.advance(MINUTE);
    }
    await compaction.sweep();
    const today = dayOf(clock.now());
    await store.history.makePartitions(today);
    await store.history.dropPartitions(
      { today, samplesFrom: today - 7, rollupsFrom: today - 730 },
      (await compaction.progress()).compactedBefore,
    );
  }
  expect(compaction.failures).toBe(0);
  const range = { property: 'level', from: iso(first * DAY), to: iso((first + 31) * DAY) };
  const month = await read(id, { ...range, step: '1d' }, later);
  expect(month.source).toBe('1d');
  expect(month.points.map(({ min, max, count }: Record<string, number>) => [min, max, count])).toEqual(
    Array.from({ length: 31 }, (_, n) => [n, n + 3, 4]),
  );
  const raw = await read(id, { ...range, step: 'raw' }, later);
  expect(raw.samples.length).toBeGreaterThanOrEqual(7 * 4);
  expect(raw.samples.length).toBeLessThanOrEqual(8 * 4);
  const chosen = await read(id, range, later);
  expect(chosen.points).toHaveLength(31);
  expect(chosen).toMatchObject({ step: '1h', source: '1h' });
  const states = await read(
    id,
    { property: 'on', from: iso(first * DAY), to: iso((first + 2) * DAY), step: '1d', agg: 'states' },
    later,
  );
  expect(states.points[1].states).toEqual([
    { state: false, ms: DAY - 2 * MINUTE },
    { state: true, ms: 2 * MINUTE },
  ]);
});
