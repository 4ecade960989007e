import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { simulatePast, stateAfter } from '../../src/device/homes/past.ts';
import { realEnvironment } from '../../src/device/homes/simulated-device.ts';
import { createHomeDevice } from '../../src/device/homes/simulated-home.ts';
import { dayOf } from '../../src/domain/day.ts';
import { HistoryCompaction } from '../../src/services/history-compaction.ts';
import { register } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
});
afterAll(() => at.stop());

const iso = (time: number) => new Date(time).toISOString();

const importInto = (id: string, reports: [time: number, state: object][], api: ApiClient = owner) =>
  api.post(`/v1/devices/${id}/history`, { reports: reports.map(([time, state]) => ({ at: iso(time), state })) });

async function read(id: string, query: Record<string, string>) {
  const { status, body } = await owner.get(`/v1/devices/${id}/history?${new URLSearchParams(query)}`);
  expect([status, body.detail]).toEqual([200, undefined]);
  return body.history;
}

describe('reports from before the registration', () => {
  it('are in the history before and after they are compacted, and the twin stays as it is', async () => {
    const { device_id: id } = await register(owner);
    const now = at.clock.now();
    const day = dayOf(now) - 20;
    const noon = day * DAY + 12 * HOUR;
    const reports: [number, object][] = [0, 1, 2, 3].map((n) => [noon + n * HOUR, { level: n, door: { open: n > 1 } }]);
    const { status, body } = await importInto(id, [...reports, [now - DAY, { level: 9 }]]);
    expect([status, body]).toEqual([200, { device_id: id, imported: 5, from: iso(noon), to: iso(now - DAY) }]);
    const range = { property: 'level', from: iso(day * DAY), to: iso((day + 1) * DAY), step: '1h' };
    const before = await read(id, range);
    expect(before.points.map(({ last }: { last: number }) => last)).toEqual([0, 1, 2, 3]);
    const { device } = (await owner.get(`/v1/devices/${id}`)).body;
    expect(device).toMatchObject({ state: {}, state_version: 0, online: false });

    const { store, log } = at.services;
    const compaction = new HistoryCompaction({ store, clock: at.clock, log, shards: () => null });
    compaction.recordImport(id, owner.tenantId);
    await compaction.compactBusy();
    expect([compaction.failures, compaction.dropped]).toEqual([0, { bytes: 0, limit: 0, expired: 0 }]);
    const after = await read(id, range);
    expect(after).toMatchObject({ source: '1h', points: before.points });
    // The roll-ups stay when the samples expire.
    const today = dayOf(now);
    await store.history.dropPartitions({ today, samplesFrom: today - 7, rollupsFrom: today - 730 }, now);
    expect((await read(id, range)).points).toEqual(before.points);
    expect((await read(id, { ...range, property: 'door.open' })).points).toMatchObject([
      ...[{ last: false }, { last: false }, { last: true }, { last: true }],
      ...Array.from({ length: 8 }, () => ({ count: 0, states: [{ state: true, ms: HOUR }] })),
    ]);
    const why = await owner.get(`/v1/devices/${id}/why?property=level`);
    const expired = await owner.get(`/v1/devices/${id}/why?property=level&at=${iso(noon + 2 * HOUR)}`);
    expect(expired.body.explanation).toMatchObject({ value: 2, received_at: null, cause: { kind: 'import' } });
    expect(why.body.explanation).toMatchObject({ value: 9, value_before: 3, cause: { kind: 'import', certain: true } });
  });

  it('are answered again to a retried request after the secret of the device was rotated', async () => {
    const { device_id: id } = await register(owner);
    const reports = [{ at: iso(at.clock.now() - DAY), state: { level: 1 } }];
    const request = () => owner.post(`/v1/devices/${id}/history`, { reports }, { 'idempotency-key': 'import-once' });
    const first = await request();
    expect((await owner.post(`/v1/device/${id}/rotate-secret`, {})).status).toBe(200);
    const again = await request();
    expect([first.status, again.status, again.body]).toEqual([200, 200, first.body]);
    const range = { property: 'level', from: iso(at.clock.now() - 2 * DAY), step: 'raw' };
    expect((await read(id, range)).samples).toHaveLength(1);
  });

  it('leave no samples of properties that the manifest leaves out, and all of others', async () => {
    const { device_id: id } = await register(owner);
    const properties = { noise: { history: 'off' }, level: { history: 'change' } };
    const { status } = await owner.post(`/v1/devices/${id}/manifest`, { category: 'light', properties });
    expect(status).toBe(201);
    const now = at.clock.now();
    const reports: [number, object][] = [
      [now - 3 * HOUR, { level: 1, noise: 1 }],
      [now - 2 * HOUR, { level: 1, noise: 2 }],
      [now - HOUR, { noise: 3 }],
    ];
    expect((await importInto(id, reports)).status).toBe(200);
    expect((await read(id, { property: 'noise', step: 'raw' })).samples).toEqual([]);
    const { samples } = await read(id, { property: 'level', step: 'raw' });
    expect(samples.map(({ value }: { value: number }) => value)).toEqual([1, 1]);
  });

  it('are before those of the device, and audited', async () => {
    const registered = await register(owner);
    const id = registered.device_id;
    const now = at.clock.now();
    await importInto(id, [[now - 2 * HOUR, { level: 1 }]]);
    const device = await connectRawDevice(at, registered);
    await device.send('state', { state: { level: 2 } });
    device.mqtt.end(true);
    const { samples } = await read(id, { property: 'level', step: 'raw' });
    expect(samples).toMatchObject([
      { value: 1, at: iso(now - 2 * HOUR), sequence_number: 0 },
      { value: 2, sequence_number: 1 },
    ]);
    const { entries } = (await owner.get(`/v1/audit?subject=device:${id}`)).body;
    expect(entries.map(({ action }: { action: string }) => action)).toContain('importHistory');
  });

  it('are refused if they are not older than the registration or too old, of another tenant, and to users', async () => {
    const { device_id: id } = await register(owner);
    const now = at.clock.now();
    const refused = async (reports: [number, object][]) => {
      const { status, body } = await importInto(id, reports);
      return [status, body.errors];
    };
    const valid: [number, object] = [now - HOUR, { level: 1 }];
    const late = {
      path: 'reports.1.at',
      message: 'must be at least ten minutes before the registration of the device',
    };
    expect(await refused([valid, [now - 5 * MINUTE, { level: 1 }]])).toEqual([400, [late]]);
    const old = { path: 'reports.0.at', message: 'must be within the retention of roll-ups' };
    expect(await refused([[now - 731 * DAY, { level: 1 }]])).toEqual([400, [old]]);
    expect((await importInto(id, [])).status).toBe(400);
    expect((await read(id, { property: 'level', step: 'raw' })).samples).toEqual([]);
    const other = await at.owner();
    expect((await importInto(id, [valid], other)).status).toBe(404);
    const { body } = await owner.post('/v1/auth/api-keys', {
      name: 'reader',
      scopes: ['read:history', 'read:devices'],
    });
    expect((await importInto(id, [valid], at.api(body.key))).status).toBe(403);
    const scopes = ['write:devices', 'read:history'];
    const key = await owner.post('/v1/auth/api-keys', { name: 'r', scopes, restrict_to: { devices: [id] } });
    expect((await importInto(id, [valid], at.api(key.body.key))).body.code).toBe('KEY_RESTRICTED');
  });
});

it('the past of a simulated home has a daily curve, habits of people, and only values of the device', async () => {
  const to = Date.parse('2026-03-10T12:00:00Z');
  let seed = 1;
  const random = () => {
    seed = (seed * 16_807) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  const pasts = await Promise.all(
    [0, 1, 2, 3, 4].map((n) =>
      simulatePast({ from: to - 2 * DAY, to, random, create: (world) => createHomeDevice(world, n) }),
    ),
  );
  for (const past of pasts) {
    const times = past.map((report) => report.at);
    expect(times).toEqual(times.toSorted((one, other) => one - other));
    expect([times[0], (times.at(-1) as number) < to]).toEqual([to - 2 * DAY, true]);
  }
  const [light, lock, climate, sensor, cover] = pasts.map((past) => past.slice(1).map(({ state }) => state));
  const valuesOf = (states: typeof light, name: string) => (states ?? []).flatMap((state) => state[name] ?? []);
  expect(new Set(valuesOf(light, 'on'))).toEqual(new Set([true, false]));
  const meter = valuesOf(light, 'energy_wh') as number[];
  expect(meter).toEqual(meter.toSorted((one, other) => one - other));
  expect(meter.at(-1)).toBeGreaterThan(30);
  // The registered light goes on counting from there.
  const now = createHomeDevice({ ...realEnvironment(random), clock: { now: () => to } }, 0);
  now.continueFrom?.(stateAfter(pasts[0] ?? []));
  now.tick(36_000);
  expect(now.state.energy_wh as number).toBeGreaterThan(meter.at(-1) as number);
  expect(new Set(valuesOf(lock, 'locked'))).toEqual(new Set([true, false]));
  expect(new Set(valuesOf(cover, 'position'))).toEqual(new Set([0, 100]));
  expect(new Set(valuesOf(climate, 'target_celsius'))).toEqual(new Set([18, 21]));
  const outside = valuesOf(sensor, 'temperature') as number[];
  expect(Math.max(...outside) - Math.min(...outside)).toBeGreaterThan(8);
});
