import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { dayOf } from '../../src/domain/day.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { HistoryCompaction } from '../../src/services/history-compaction.ts';
import type { Device as RawDevice } from '../edges/mqtt/client.ts';
import { eventually } from '../support/clock.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
const devices: Device[] = [];
const rawDevices: RawDevice[] = [];

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
});
afterAll(async () => {
  for (const device of devices) await device.close();
  for (const { mqtt } of rawDevices) mqtt.end(true);
  await at.stop();
});

const iso = (time: number) => new Date(time).toISOString();

async function explain(id: string, query: Record<string, string>, api: ApiClient = owner) {
  const { status, body } = await api.get(`/v1/devices/${id}/why?${new URLSearchParams(query)}`);
  expect([status, body.detail]).toEqual([200, undefined]);
  return body.explanation;
}

async function rawDevice() {
  const registered = await register(owner);
  const device = await connectRawDevice(at, registered);
  rawDevices.push(device);
  let sequence = 0;
  return {
    id: registered.device_id as string,
    heartbeat: async (payload: JsonObject) => device.send('heartbeat', payload, { sequence: ++sequence }),
    report: async (state: JsonObject, timestamp = at.clock.now()) =>
      device.send('state', { state }, { sequence: ++sequence, timestamp }),
  };
}

describe('a value that no command caused', () => {
  it('is explained by the report that changed it, also for an earlier time', async () => {
    const { id, report } = await rawDevice();
    const start = at.clock.now();
    for (const [n, level] of [20, 21, 21, 22, 22].entries()) {
      await report({ level, air: { co2: 400 } }, start + n * 1_000);
      at.clock.advance(1_000);
    }
    expect(await explain(id, { property: 'level' })).toMatchObject({
      ...{ device_id: id, property: 'level', value: 22, value_before: 21, sequence_number: 4, left_out: [] },
      ...{ changed_from: iso(start + 3_000), changed_until: iso(start + 3_000) },
      cause: { kind: 'device', certain: true, evidence: null },
      chain: [{ kind: 'report', text: 'The device reported 22 instead of 21', at: iso(start + 3_000), by: null }],
    });
    const earlier = await explain(id, { property: 'level', at: iso(start + 2_500) });
    expect(earlier).toMatchObject({ value: 21, value_before: 20, sequence_number: 2, at: iso(start + 2_500) });
    const nested = await explain(id, { property: 'air.co2' });
    expect(nested).toMatchObject({ value: 400, value_before: null, sequence_number: 1 });
    expect(nested.chain[0].text).toBe('The device reported 400');
    for (const query of [{ property: 'humidity' }, { property: 'level', at: iso(start - 1) }])
      expect(await explain(id, query)).toMatchObject({ value: null, chain: [], cause: { kind: 'unknown' } });
  });

  it('is explained for telemetry, also while it waits for a commit', async () => {
    const { id, report, heartbeat } = await rawDevice();
    await report({ level: 1 });
    await heartbeat({ rssi: -60 });
    at.clock.advance(1_000);
    await heartbeat({ rssi: -70 });
    expect(await explain(id, { property: '$telemetry.rssi' })).toMatchObject({
      ...{ value: -70, value_before: -60, sequence_number: 3, cause: { kind: 'device', certain: true } },
      chain: [{ kind: 'report', text: 'The device reported -70 instead of -60' }],
    });
  });

  it('is refused to another tenant, without the scope and with a query that is not valid', async () => {
    const { id } = await rawDevice();
    const other = await at.owner();
    expect((await other.get(`/v1/devices/${id}/why?property=level`)).status).toBe(404);
    for (const query of ['', 'property=', 'property=%24x', 'property=a&at=yesterday'])
      expect((await owner.get(`/v1/devices/${id}/why?${query}`)).status, query).toBe(400);
    const { body } = await owner.post('/v1/auth/api-keys', { name: 'devices', scopes: ['read:devices'] });
    expect((await at.api(body.key).get(`/v1/devices/${id}/why?property=level`)).status).toBe(403);
  });
});

describe('a value that a command caused', () => {
  let lock: string;
  let commandId: string;

  beforeAll(async () => {
    const registered = await register(owner, { device_type: 'smart_lock', name: 'Front door' });
    lock = registered.device_id;
    const device = await connect(registered, {
      state: { locked: true, battery: 90 },
      commands: { unlock: () => ({ state: { locked: false } }), lock: () => ({ state: { locked: true } }) },
    });
    devices.push(device);
    await eventually(async () => (await owner.get(`/v1/devices/${lock}`)).body.device.state.locked === true);
    commandId = (await owner.post(`/v1/device/${lock}/command`, { action: 'unlock' })).body.command_id;
    expect((await owner.post(`/v1/confirmations/${commandId}/approve`)).status).toBe(202);
    await waitForCommand(owner, commandId, ({ status }) => status === 'succeeded');
  });

  it('has the command and who confirmed it, if its acknowledgement had the value', async () => {
    const explanation = await explain(lock, { property: 'locked' });
    expect(explanation).toMatchObject({
      ...{ value: false, value_before: true },
      cause: { kind: 'command', certain: true, evidence: 'ack' },
      chain: [
        { kind: 'report', text: 'The device reported false instead of true', by: null },
        { kind: 'command', text: 'Unlock succeeded', id: commandId, by: owner.userId, credential: { kind: 'person' } },
        { kind: 'confirmation', text: 'Unlock was confirmed', id: commandId, by: owner.userId },
      ],
    });
    // What the command did not report is not its effect.
    expect((await explain(lock, { property: 'battery' })).cause.kind).toBe('device');
    const query = `query ($id: ID!) { valueExplanation(id: $id, property: "locked") {
      value cause { kind certain evidence } chain { kind id } } }`;
    const { body } = await owner.post('/graphql', { query, variables: { id: lock } });
    expect(body.data.valueExplanation).toEqual({
      ...{ value: false, cause: { kind: 'COMMAND', certain: true, evidence: 'ACK' } },
      chain: [
        { kind: 'REPORT', id: null },
        { kind: 'COMMAND', id: commandId },
        { kind: 'CONFIRMATION', id: commandId },
      ],
    });
  });

  it('has the plan, and leaves out what the credential may not read', async () => {
    const steps = [{ id: 'close', device_id: lock, action: 'lock', params: {} }];
    const planId = (await owner.post('/v1/plans', { name: 'Evening', steps })).body.plan.id;
    await eventually(async () => (await owner.get(`/v1/plans/${planId}`)).body.plan.status === 'succeeded');
    const { chain } = await explain(lock, { property: 'locked' });
    expect(chain).toMatchObject([
      { kind: 'report', text: 'The device reported true instead of false' },
      { kind: 'command', text: 'Step “close” of the plan “Evening”: Lock succeeded', by: owner.userId },
      { kind: 'plan', text: 'The plan “Evening” was requested', id: planId, by: owner.userId },
    ]);
    const keyWith = async (scopes: string[], more: object = {}) =>
      at.api((await owner.post('/v1/auth/api-keys', { name: 'key', scopes, ...more })).body.key);
    const history = await explain(lock, { property: 'locked' }, await keyWith(['read:history']));
    expect(history).toMatchObject({ value: true, cause: { kind: 'unknown' }, left_out: ['commands', 'plans'] });
    expect(history.chain).toHaveLength(1);
    const scopes = ['read:history', 'read:commands', 'read:plans'];
    const restricted = await keyWith(scopes, { restrict_to: { homes: [owner.homeId] } });
    const seen = await explain(lock, { property: 'locked' }, restricted);
    expect(seen).toMatchObject({ cause: { certain: true }, left_out: ['plans'] });
    expect(JSON.stringify(seen)).not.toContain(planId);
    expect(JSON.stringify(seen)).not.toContain('Evening');
    const { body: home } = await owner.post('/v1/homes', { home_name: 'Other', timezone: 'UTC' });
    const elsewhere = await keyWith(scopes, { restrict_to: { homes: [home.id] } });
    expect((await elsewhere.get(`/v1/devices/${lock}/why?property=locked`)).status).toBe(404);
  });
});

it('a report that verifies a command is certain, and one before it only probable', async () => {
  const registered = await register(owner);
  const device = await connectRawDevice(at, registered);
  rawDevices.push(device);
  const { device_id: id } = registered;
  let sequence = 0;
  const report = (state: JsonObject) => device.send('state', { state }, { sequence: ++sequence });
  await report({ on: false, brightness: 10 });
  const { body } = await owner.post(`/v1/device/${id}/command`, { action: 'set_brightness', params: { level: 40 } });
  const expected = (await owner.get(`/v1/commands/${body.command_id}`)).body.command.verification.expected;
  expect(expected).toMatchObject({ brightness: 40 });
  at.clock.advance(1_000);
  await report({ brightness: 25 });
  const command = { kind: 'command', id: body.command_id };
  expect(await explain(id, { property: 'brightness' })).toMatchObject({
    cause: { kind: 'command', certain: false, evidence: 'expected_property' },
    chain: [{ kind: 'report', text: 'The device reported 25 instead of 10' }, command],
  });
  at.clock.advance(1_000);
  await report({ ...expected });
  expect(await explain(id, { property: 'brightness' })).toMatchObject({
    ...{ value: 40, value_before: 25 },
    cause: { kind: 'command', certain: true, evidence: 'verification' },
    chain: [{ kind: 'report' }, command],
  });
  at.clock.advance(1_000);
  await report({ brightness: 41 });
  expect((await explain(id, { property: 'brightness' })).cause.kind).toBe('device');
});

it('a value that has not changed for weeks is found by roll-ups, and its minute when the report has expired', async () => {
  const { services, clock } = at;
  const registered = await register(owner);
  const id = registered.device_id;
  const { body: created } = await owner.post('/v1/auth/api-keys', {
    name: 'why',
    scopes: ['read:history', 'read:commands'],
  });
  const later = at.api(created.key);
  const { store, log } = services;
  const compaction = new HistoryCompaction({ store, clock, log, shards: () => null });
  const first = dayOf(clock.now()) + 1;
  clock.set(first * DAY + 12 * 3_600_000);
  const start = clock.now();
  let sequence = 100;
  for (let day = 0; day < 10; day += 1) {
    // A session lasts a day.
    const device = await connectRawDevice(at, registered);
    rawDevices.push(device);
    const values = day === 0 ? [1, 5, 5] : [5, 5];
    for (const [n, level] of values.entries()) {
      sequence += 1;
      await device.send('state', { state: { level } }, { sequence, timestamp: clock.now() });
      clock.advance(n === 0 ? 2 * MINUTE : 1_000);
    }
    await compaction.sweep();
    if (day === 3) {
      const exact = await explain(id, { property: 'level' }, later);
      expect(exact).toMatchObject({ value: 5, value_before: 1, sequence_number: 102, cause: { kind: 'device' } });
      expect(exact.changed_from).toBe(exact.changed_until);
    }
    clock.set((first + day + 1) * DAY + 12 * 3_600_000);
  }
  expect(compaction.failures).toBe(0);
  const expired = await explain(id, { property: 'level' }, later);
  const minute = Math.floor((start + 2 * MINUTE) / MINUTE) * MINUTE;
  expect(expired).toMatchObject({
    ...{ value: 5, value_before: 1, changed_from: iso(minute), changed_until: iso(minute + MINUTE) },
    ...{ received_at: null, sequence_number: null, cause: { kind: 'unknown' } },
    chain: [{ kind: 'report', text: 'The device began to report 5 instead of 1 in this minute' }],
  });
});
