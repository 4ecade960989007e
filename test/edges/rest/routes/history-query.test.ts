import { afterAll, beforeAll, expect, it } from 'vitest';
import { dayOf } from '../../../../src/domain/day.ts';
import type { JsonObject } from '../../../../src/domain/values.ts';
import { eventually } from '../../../support/clock.ts';
import { DAY } from '../../../support/history-model.ts';
import type { HttpService } from '../../../support/http-service.ts';
import { samplesOfDay, storeHistory } from '../../../support/stored-history.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
/** Newest last: a lamp in the room, and one in the home. */
let lamps: string[];
let range: { from: string; to: string };

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
  const day = dayOf(service.clock.now()) - 1;
  range = { from: new Date(day * DAY).toISOString(), to: new Date((day + 1) * DAY).toISOString() };
  lamps = [];
  for (const place of [{ room_id: mine.roomId, tags: ['floor:1'] }, { tags: ['floor:2'] }]) {
    const { device_id: deviceId } = await mine.register(place);
    lamps.push(deviceId);
    service.clock.advance(1_000);
    await storeHistory(
      service.store,
      { deviceId, tenantId: mine.tenantId },
      {
        level: new Map([[day, samplesOfDay(day, 1_440, [1, 2, lamps.length + 2])]]),
        on: new Map([[day, samplesOfDay(day, 4, [true, false])]]),
      },
    );
  }
});
afterAll(() => service.close());

const query = async (body: object, token = mine.tokens.user) =>
  service.call('POST', '/v1/history/query', { token, body: { ...range, ...body } });
const read = async (id: string | undefined, property: string, more: Record<string, string>) =>
  (await mine.call('GET', `/devices/${id}/history?${new URLSearchParams({ property, ...range, ...more })}`)).body
    .history;
const namesOf = ({ series }: { series: { device_id: string; property: string }[] }) =>
  series.map(({ device_id, property }) => `${lamps.indexOf(device_id)} ${property}`);

it('answers each series as the history of its device does', async () => {
  const [lamp, other] = lamps;
  const wanted = [
    { device_id: other, property: 'on' },
    { device_id: lamp, property: 'level' },
    { device_id: lamp, property: 'unknown' },
    { device_id: other, property: 'level' },
  ];
  for (const step of ['raw', 'changes', '30s', '7m', '1h', '1d']) {
    const { status, body } = await query({ series: wanted, step });
    expect(status).toBe(200);
    const each = await Promise.all(wanted.map(({ device_id, property }) => read(device_id, property, { step })));
    expect(body, step).toEqual({ series: each, has_more: false });
  }
  const limited = (await query({ series: wanted.slice(1, 2), step: 'raw', limit: 100 })).body.series[0];
  expect(limited.samples).toHaveLength(100);
  expect(limited.next_from).not.toBeNull();
  const { body } = await query({ series: wanted, limit: 30, agg: 'max' });
  expect(body.series.map(({ step }: { step: string }) => step)).toEqual(Array(4).fill('1h'));
  expect(body.series[1].points[0]).toMatchObject({ max: 3, min: null });
});

it('selects the devices of a home, a room, a group, of tags and of a category, newest first', async () => {
  const { slug } = (await mine.call('POST', '/groups', { name: 'First', device_ids: [lamps[0]] })).body;
  const named = async (devices: JsonObject, more: JsonObject = {}) => {
    const { status, body } = await query({ devices, properties: ['level'], step: '1d', ...more });
    return status === 200 ? [...namesOf(body), ...(body.has_more ? ['more'] : [])] : body.code;
  };
  expect(await named({ home_id: mine.homeId })).toEqual(['1 level', '0 level']);
  expect(await named({ room_id: mine.roomId })).toEqual(['0 level']);
  expect(await named({ tags: ['floor:2'] })).toEqual(['1 level']);
  expect(await named({ category: 'light' })).toEqual(['1 level', '0 level']);
  expect(await named({ category: 'light', tags: ['floor:1'] })).toEqual(['0 level']);
  expect(await named({ category: 'lock' })).toEqual([]);
  expect(await named({ home_id: mine.homeId }, { max_series: 1 })).toEqual(['1 level', 'more']);
  const both = { properties: ['level', 'on'], max_series: 3 };
  expect(await named({ home_id: mine.homeId }, both)).toEqual(['1 level', '1 on', '0 level', 'more']);
  expect(await named({ group: 'none' })).toBe('NOT_FOUND');
  expect(await named({ room_id: mine.homeId })).toBe('NOT_FOUND');
  expect(await named({ group: slug })).toEqual(['0 level']);
});

it('leaves out selected devices without the property, which do not count', async () => {
  const tags = ['floor:3'];
  const thermostat = (await mine.register({ device_type: 'room_climate', tags })).device_id;
  service.clock.advance(1_000);
  const reporting = (await mine.register({ device_type: 'environment_sensor', tags })).device_id;
  await mine.connect(reporting);
  await mine.report(reporting, { climate: { temperature: 20 } });
  const others: string[] = [];
  for (let n = 0; n < 5; n += 1) others.push((await mine.register({ tags })).device_id);
  const seriesOf = async (...properties: string[]) => {
    const { status, body } = await query({ devices: { tags }, properties, step: '1d', max_series: 3 });
    expect(status, JSON.stringify(body)).toBe(200);
    return [body.series.map(({ device_id, property }: JsonObject) => [device_id, property]), body.has_more];
  };
  // What the device reported, and what an action of the manifest sets, although nothing was reported.
  expect(await seriesOf('climate.temperature')).toEqual([[[reporting, 'climate.temperature']], false]);
  expect(await seriesOf('target_celsius')).toEqual([[[thermostat, 'target_celsius']], false]);
  expect(await seriesOf('humidity')).toEqual([[], false]);
  // Named devices have a series in any case.
  const { body } = await query({ series: [{ device_id: others[0], property: 'humidity' }], step: '1d' });
  expect(body.series).toMatchObject([{ device_id: others[0], points: [] }]);
  // Of lights the manifest has the brightness.
  const { body: lights } = await query({ devices: { tags }, properties: ['brightness'], step: '1d', max_series: 3 });
  expect([lights.series.length, lights.has_more]).toEqual([3, true]);
});

it('is for users with the scope, of the tenant, and as far as a key reaches', async () => {
  const [lamp, other] = lamps;
  const outsider = await makeTestTenant(service);
  const series = [lamp, other].map((device_id) => ({ device_id, property: 'level' }));
  const codeOf = async (token: string, body: object = { series }) => {
    const answer = await query(body, token);
    return answer.status === 200 ? namesOf(answer.body) : answer.body.code;
  };
  expect(await codeOf(mine.tokens.viewer)).toBe('FORBIDDEN_ROLE');
  expect(await codeOf(outsider.tokens.owner)).toBe('NOT_FOUND');
  const selected = { devices: { home_id: mine.homeId }, properties: ['level'], step: '1d' };
  expect(await codeOf(outsider.tokens.owner, selected)).toBe('NOT_FOUND');
  const asKey = async (body: object, asked: object) => {
    const { key } = (await mine.call('POST', '/auth/api-keys', { name: 'k', ...body })).body;
    const answer = await service.call('POST', '/v1/history/query', { headers: { 'x-api-key': key }, body: asked });
    return answer.status === 200 ? namesOf(answer.body) : answer.body.code;
  };
  expect(await asKey({ scopes: ['read:devices'] }, { series })).toBe('INSUFFICIENT_SCOPE');
  expect(await asKey({ scopes: ['read:history'] }, selected)).toBe('INSUFFICIENT_SCOPE');
  const scopes = ['read:history', 'read:devices'];
  expect(await asKey({ scopes }, selected)).toEqual(['1 level', '0 level']);
  const restrict_to = { devices: [lamp] };
  expect(await asKey({ scopes, restrict_to }, { series })).toBe('NOT_FOUND');
  expect(await asKey({ scopes, restrict_to }, { series: series.slice(0, 1) })).toEqual(['0 level']);
  expect(await asKey({ scopes, restrict_to }, selected)).toEqual(['0 level']);
  expect(await asKey({ scopes, restrict_to }, { ...selected, devices: { category: 'light' } })).toEqual(['0 level']);
});

it.each<[string, object, string]>([
  ['neither series nor devices', {}, 'series'],
  ['devices without properties', { devices: { category: 'light' } }, 'series'],
  ['devices without a condition', { devices: {}, properties: ['level'] }, 'devices'],
  ['more series than it may have', { series: [1, 2], max_series: 1 }, 'series'],
  ['both', { series: [1], devices: { category: 'light' } }, 'series'],
  ['a limit that is too high for the number of series', { series: [...Array(10).keys()], limit: 5_001 }, 'limit'],
  ['more intervals than the limit', { series: [1], step: '1m', limit: 100 }, 'step'],
  ['an unknown step', { series: [1], step: '1w' }, 'step'],
])('refuses %s', async (_, body, path) => {
  const { series } = body as { series?: unknown[] };
  const named = series?.map(() => ({ device_id: lamps[0], property: 'level' }));
  const answer = await query({ ...body, ...(named !== undefined && { series: named }) });
  expect(answer.status).toBe(400);
  expect(answer.body.errors[0].path).toBe(path);
});

it('reads 100 series with few statements, and four queries of a tenant at the same time', async () => {
  const { history } = service.store;
  const { series: readSeries } = history;
  let statements = 0;
  const held: (() => void)[] = [];
  history.series = async (...args) => {
    statements += 1;
    await new Promise<void>((resolve) => held.push(resolve));
    return readSeries(...args);
  };
  const many = Array.from({ length: 100 }, (_, n) => ({
    device_id: lamps[n % 2],
    property: n < 2 ? 'level' : `p${n}`,
  }));
  const running = Array.from({ length: 4 }, () => query({ series: many, step: '5m' }));
  await eventually(() => held.length === 4);
  const fifth = await query({ series: many, step: '5m' });
  history.series = readSeries;
  for (const release of held) release();
  const answers = await Promise.all(running);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(answers[0]?.body.series).toHaveLength(100);
  expect(statements).toBe(4);
  expect([fifth.status, fifth.headers.get('retry-after')]).toEqual([429, '1']);
});

it('is in GraphQL, with fewer series, and costs by their number and length', async () => {
  const graphql = (text: string) =>
    service.call('POST', '/graphql', { token: mine.tokens.user, body: { query: text } });
  const fields = '{ series { deviceId property points { at max } } hasMore }';
  const time = `from: "${range.from}", to: "${range.to}"`;
  const selected = `historyQuery(devices: {homeId: "${mine.homeId}"}, properties: ["level"], step: "1d", ${time}`;
  const { body } = await graphql(`{ ${selected}) ${fields} }`);
  expect(body.data.historyQuery).toEqual({
    series: [1, 0].map((n) => ({
      ...{ deviceId: lamps[n], property: 'level' },
      points: [{ at: range.from, max: n + 3 }],
    })),
    hasMore: false,
  });
  const one = await graphql(`{ ${selected}, maxSeries: 1) ${fields} }`);
  expect(one.body.data.historyQuery.hasMore).toBe(true);
  expect(
    (await graphql(`{ a: ${selected}) ${fields} b: ${selected}) ${fields} c: ${selected}) ${fields} }`)).status,
  ).toBe(400);
  expect((await graphql(`{ ${selected}, maxSeries: 100) ${fields} }`)).status).toBe(400);
  expect((await graphql(`{ ${selected}, maxSeries: 100, limit: 20) ${fields} }`)).body.errors).toBeUndefined();
});
