import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/domain/values.ts';
import type { Device } from '../edges/mqtt/client.ts';
import { register } from '../support/device.ts';
import { callTool, codeOf, mcpClient, structured } from '../support/mcp.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { startService, type TestService } from '../support/service.ts';

const MINUTE = 60_000;

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let kitchen: string;
let client: Client;
const devices: Device[] = [];
/** Ids by name. */
const id: Record<string, string> = {};
/** When the first sample was taken. */
let start: number;

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  kitchen = (await owner.post(`/v1/homes/${owner.homeId}/rooms`, { name: 'Kitchen' })).body.id;
  // A token that was presented at /mcp may not create keys.
  const { body } = await owner.post('/v1/auth/api-keys', { name: 'agent', scopes: ['read:*'] });
  client = await mcpClient(at.url, body.key);
  const sensor = await connected('Sensor', { device_type: 'environment_sensor', room_id: kitchen });
  const door = await connected('Door', { device_type: 'door_lock' });
  start = at.clock.now();
  for (let n = 0; n < 30; n += 1) {
    await sensor({ temperature: 20 + n / 10, climate: { mode: n < 10 ? 'heat' : 'off' }, list: [n] });
    if (n % 10 === 0) await door({ open: n % 20 === 0 });
    // One gap.
    at.clock.advance(n === 14 ? 10 * MINUTE : MINUTE);
  }
});
afterAll(async () => {
  for (const { mqtt } of devices) mqtt.end(true);
  await client?.close();
  await at?.stop();
});

async function connected(name: string, more: Record<string, unknown>) {
  const registered = await register(owner, { name, ...more });
  const device = await connectRawDevice(at, registered);
  devices.push(device);
  id[name] = registered.device_id;
  let sequence = 0;
  return (state: JsonObject) => device.send('state', { state }, { sequence: ++sequence });
}

const call = async (name: string, args: object, by = client) => {
  const result = await callTool(by, name, args);
  if (result.isError) throw new Error(JSON.stringify(result.content));
  return structured(result);
};
const iso = (time: number) => new Date(time).toISOString();
const namesIn = ({ series }: { series: { property: string }[] }) => series.map(({ property }) => property);
const withKey = async (body: object, use: (key: Client) => Promise<void>) => {
  const created = await owner.post('/v1/auth/api-keys', { name: 'agent', ...body });
  const key = await mcpClient(at.url, created.body.key);
  await use(key).finally(() => key.close());
};

describe('get_device_history', () => {
  it('summarizes numbers and states as REST reads them', async () => {
    const { series, left_out, next_cursor } = await call('get_device_history', { device_id: id.Sensor });
    expect([left_out, next_cursor]).toEqual([[], null]);
    expect(namesIn({ series })).toEqual(['climate.mode', 'temperature']);
    const [mode, temperature] = series;
    expect(temperature).toMatchObject({
      ...{ device_id: id.Sensor, device_name: 'Sensor', unit: '°C', count: 30, changes: 29, trend: 'rising' },
      ...{ min: 20, max: 22.9, mean: 21.45, states: [] },
      first: { at: expect.stringMatching(/Z$/), value: 20 },
      last: { value: 22.9 },
    });
    const [gap, ...others] = temperature.gaps;
    expect(others).toEqual([]);
    expect(Date.parse(gap.to) - Date.parse(gap.from)).toBeGreaterThanOrEqual(10 * MINUTE);
    const query = new URLSearchParams({ property: 'climate.mode', step: '1d', from: iso(start), agg: 'states' });
    const { body } = await owner.get(`/v1/devices/${id.Sensor}/history?${query}`);
    const secondsOf = (state: string) =>
      Math.round(
        body.history.points
          .flatMap((point: { states: { state: string; ms: number }[] }) => point.states)
          .filter((one: { state: string }) => one.state === state)
          .reduce((sum: number, { ms }: { ms: number }) => sum + ms, 0) / 1000,
      );
    const heat = mode.states.find(({ state }: { state: string }) => state === 'heat');
    expect(Math.abs(heat.seconds - secondsOf('heat'))).toBeLessThanOrEqual(1);
    expect(mode).toMatchObject({ unit: null, min: null, mean: null, trend: null, changes: 1, count: 30 });
    // The changes instead of all samples.
    expect(mode.points.map(({ value }: { value: string }) => value)).toEqual(['heat', 'off']);
  });

  it('has no more points than requested, of merged intervals with minimum and maximum', async () => {
    const args = { device_id: id.Sensor, property: 'temperature' };
    for (const points of [0, 1, 5, 50]) {
      const { series } = await call('get_device_history', { ...args, points });
      expect(series[0].points.length, `${points}`).toBeLessThanOrEqual(points);
      expect(series[0]).toMatchObject({ count: 30, min: 20, max: 22.9 });
    }
    const { series } = await call('get_device_history', { ...args, points: 1, from: iso(start) });
    expect(series[0].points).toEqual([{ at: expect.any(String), value: 21.45, min: 20, max: 22.9 }]);
    const all = await call('get_device_history', { ...args, points: 50, from: iso(start) });
    expect(all.series[0].points).toHaveLength(30);
  });

  it('names a property that was never reported without samples, and continues with its cursor', async () => {
    const nothing = await call('get_device_history', { device_id: id.Sensor, property: 'humidity' });
    expect(nothing.series).toMatchObject([{ count: 0, first: null, last: null, unit: '%', changes: 0, points: [] }]);
    const first = await call('get_device_history', { device_id: id.Sensor, limit: 1 });
    expect(namesIn(first)).toEqual(['climate.mode']);
    const rest = await call('get_device_history', { device_id: id.Sensor, limit: 1, cursor: first.next_cursor });
    expect([namesIn(rest), rest.next_cursor]).toEqual([['temperature'], null]);
  });

  it('refuses wrong arguments with their names', async () => {
    for (const [args, path] of [
      [{ property: 'temperature' }, 'device_id'],
      [{ device_id: id.Sensor, points: 51 }, 'points'],
      [{ device_id: id.Sensor, limit: 21 }, 'limit'],
      [{ device_id: id.Sensor, cursor: 'x' }, 'cursor'],
      [{ device_id: id.Sensor, from: 'yesterday' }, 'from'],
      [{ device_id: id.Sensor, from: iso(start), to: iso(start - MINUTE) }, 'from'],
      [{ device_id: id.Sensor, home_id: owner.homeId }, 'home_id'],
    ] as const) {
      const result = await callTool(client, 'get_device_history', args);
      const refusal = result._meta?.['twinkeep/refusal'] as { code: string; errors: { path: string }[] };
      expect([refusal.code, refusal.errors[0]?.path], path).toEqual(['VALIDATION_FAILED', path]);
    }
  });
});

describe('get_home_history', () => {
  it('has the properties of all devices of a home or a room, page by page', async () => {
    const all = await call('get_home_history', { home_id: owner.homeId });
    const found = all.series.map((one: Record<string, string>) => [one.device_name, one.property]);
    expect(found).toEqual([
      ['Door', 'open'],
      ['Sensor', 'climate.mode'],
      ['Sensor', 'temperature'],
    ]);
    const paged: unknown[] = [];
    let cursor: string | null = null;
    do {
      const page: { series: Record<string, string>[]; next_cursor: string | null } = await call('get_home_history', {
        ...{ home_id: owner.homeId, limit: 1 },
        ...(cursor !== null && { cursor }),
      });
      paged.push(...page.series.map((one) => [one.device_name, one.property]));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(paged).toEqual(found);
    const ofRoom = await call('get_home_history', { home_id: owner.homeId, room_id: kitchen, property: 'temperature' });
    expect(namesIn(ofRoom)).toEqual(['temperature']);
  });

  it('has a text that is complete JSON, with fewer properties and the cursor after them', async () => {
    const { content } = await callTool(client, 'get_home_history', { home_id: owner.homeId, points: 50 });
    const [summary, notice, data] = content.map((part) => (part.type === 'text' ? part.text : ''));
    expect(summary).toMatch(/^3 properties with 63 samples from \S+ to \S+, in intervals of 30m\.$/);
    expect(notice).toContain('call again with limit');
    const shown = JSON.parse((data ?? '').replace(/<\/?twinkeep-data>/g, ''));
    const rest = await call('get_home_history', { home_id: owner.homeId, points: 50, cursor: shown.next_cursor });
    expect([...namesIn(shown), ...namesIn(rest)]).toEqual(['open', 'climate.mode', 'temperature']);
  });

  it('does not find the homes and devices of another tenant', async () => {
    const other = await at.owner();
    const foreign = await mcpClient(at.url, other.token);
    expect(codeOf(await callTool(foreign, 'get_home_history', { home_id: owner.homeId }))).toBe('NOT_FOUND');
    expect(codeOf(await callTool(foreign, 'get_device_history', { device_id: id.Sensor }))).toBe('NOT_FOUND');
    const named = { device_id: id.Sensor, property: 'temperature' };
    expect(codeOf(await callTool(foreign, 'get_device_history', named))).toBe('NOT_FOUND');
    const stolen = await call('get_home_history', { home_id: owner.homeId, limit: 1 });
    const mine = { home_id: other.homeId, cursor: stolen.next_cursor };
    expect((await call('get_home_history', mine, foreign)).series).toEqual([]);
    await foreign.close();
  });

  it('shows a restricted key only the devices that it reaches', async () => {
    await withKey({ scopes: ['read:*'], restrict_to: { rooms: [kitchen] } }, async (key) => {
      const { series } = await call('get_home_history', { home_id: owner.homeId }, key);
      expect(series.map((one: Record<string, string>) => one.device_name)).toEqual(['Sensor', 'Sensor']);
      expect(codeOf(await callTool(key, 'get_device_history', { device_id: id.Door, property: 'open' }))).toBe(
        'NOT_FOUND',
      );
    });
  });
});

describe('the scopes', () => {
  const shownTo = async (key: Client) =>
    (await key.listTools()).tools.map(({ name }) => name).filter((name) => name.endsWith('_history'));

  it('read:history suffices for a property that is named; a home needs those of its devices', async () => {
    await withKey({ scopes: ['read:history'] }, async (key) => {
      expect(await shownTo(key)).toEqual(['get_device_history']);
      const named = { device_id: id.Sensor, property: 'temperature' };
      expect((await call('get_device_history', named, key)).series).toMatchObject([
        { device_name: null, unit: null, count: 30 },
      ]);
      expect(codeOf(await callTool(key, 'get_device_history', { device_id: id.Sensor }))).toBe('INSUFFICIENT_SCOPE');
      expect(codeOf(await callTool(key, 'get_home_history', { home_id: owner.homeId }))).toBe('INSUFFICIENT_SCOPE');
    });
    await withKey({ scopes: ['read:devices', 'read:homes'] }, async (key) => {
      expect(await shownTo(key)).toEqual([]);
      expect(codeOf(await callTool(key, 'get_device_history', { device_id: id.Sensor }))).toBe('INSUFFICIENT_SCOPE');
    });
  });
});

// Last, as its device changes the pages of the home.
it('a target that did not change in the range is summarized by its value before it', async () => {
  const { device_id } = await register(owner, { name: 'Heating', device_type: 'room_climate' });
  const at = iso(start - 20 * MINUTE);
  const state = { target_celsius: 21.5, temperature: 20, mode: 'heat' };
  expect((await owner.post(`/v1/devices/${device_id}/history`, { reports: [{ at, state }] })).status).toBe(200);
  const summaryOf = async (property: string) => {
    const range = { from: iso(start), to: iso(start + 30 * MINUTE) };
    const [series] = (await call('get_device_history', { device_id, property, ...range })).series;
    return series;
  };
  const value = { value: 21.5 };
  expect(await summaryOf('target_celsius')).toMatchObject({
    ...{ count: 0, before: 21.5, first: value, last: value, min: 21.5, max: 21.5, mean: 21.5, trend: 'steady' },
    points: [value],
  });
  const states = [{ state: 'heat', seconds: expect.any(Number) }];
  expect(await summaryOf('mode')).toMatchObject({ before: 'heat', last: { value: 'heat' }, changes: 0, states });
  // A measured value is not known between two samples.
  expect(await summaryOf('temperature')).toMatchObject({
    before: 20,
    first: null,
    last: null,
    min: null,
    points: [],
  });
});
