import { afterEach, beforeEach, expect, it } from 'vitest';
import { dayOf } from '../../../src/domain/day.ts';
import { DAY } from '../../support/history-model.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';
import { samplesOfDay, storeHistory } from '../../support/stored-history.ts';

let service: HttpService<MemoryStore>;
let owner: Awaited<ReturnType<HttpService['owner']>>;
let id: string;
let path: string;

/** A tenant with 12 requests a minute, and a device with 25,000 samples of each of two properties. */
beforeEach(async () => {
  service = await startHttpService({ rateLimits: { free: 12 } });
  owner = await service.owner();
  const { token, tenantId } = owner;
  const home = await service.call('POST', '/v1/homes', { token, body: { home_name: 'Lakeside' } });
  const device = { device_type: 'smart_light', home_id: home.body.id };
  id = (await service.call('POST', '/v1/device/register', { token, body: device })).body.device_id;
  const day = dayOf(service.clock.now()) - 1;
  const samples = new Map([[day, samplesOfDay(day, 25_000, [1, 2])]]);
  await storeHistory(service.store, { deviceId: id, tenantId }, { level: samples, other: samples });
  const range = { from: new Date(day * DAY).toISOString(), to: new Date((day + 1) * DAY).toISOString() };
  path = `/v1/devices/${id}/history/export?${new URLSearchParams({ ...range, property: 'level' })}`;
  service.clock.advance(60_000);
});
afterEach(() => service.close());

const get = (url: string) => fetch(`${service.url}${url}`, { headers: { authorization: `Bearer ${owner.token}` } });
const remaining = ({ headers }: Response) => Number(/;r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1]);

it('an export costs one request for each started 10,000 samples, before it begins', async () => {
  const first = await get(path);
  expect([first.status, remaining(first)]).toEqual([200, 9]);
  await first.text();
  const both = await get(`${path}&property=other`);
  expect([both.status, remaining(both)]).toEqual([200, 4]);
  await both.text();
  const hours = await get(`${path}&property=other&step=1h`);
  expect(remaining(hours)).toBe(3);
  await hours.text();
  const single = await get(`/v1/devices/${id}/history?property=level&step=raw`);
  expect(remaining(single)).toBe(2);
});

it('an export beyond what is left is refused as a whole, and one beyond the limit in any minute', async () => {
  for (let n = 0; n < 4; n += 1) await (await get(path)).text();
  const refused = await get(path);
  expect([refused.status, remaining(refused), refused.headers.get('retry-after')]).toEqual([429, 0, '60']);
  expect(refused.headers.get('ratelimit')).toContain('"tenant"');
  service.clock.advance(60_000);
  const seconds = await get(`${path}&step=1s`);
  expect([seconds.status, remaining(seconds)]).toEqual([200, 3]);
  await seconds.text();
  service.clock.advance(60_000);
  const tooMuch = await get(`${path}&property=other&step=1s`);
  expect(tooMuch.status).toBe(400);
  expect(((await tooMuch.json()) as { detail: string }).detail).toBe(
    'The request costs 18, more than the limit of 12 requests per minute of this tenant. Request less at a time.',
  );
});

it('each history of a GraphQL document costs, the first one with the request', async () => {
  const history = `deviceHistory(id: "${id}", property: "level", step: "raw", limit: 100) { samples { value } }`;
  const post = async (names: readonly string[]) => {
    const query = `{ ${names.map((name) => `${name}: ${history}`).join(' ')} }`;
    return service.call('POST', '/graphql', { token: owner.token, body: { query } });
  };
  const left = (await post(['a', 'b', 'c'])).headers.get('ratelimit');
  expect(left).toContain('r=9');
  for (let n = 0; n < 2; n += 1) await post(['a', 'b', 'c']);
  const { status, body } = await post(['a', 'b', 'c', 'd']);
  expect(status).toBe(200);
  expect(Object.values(body.data).filter((one) => one === null)).toHaveLength(1);
  expect(body.errors[0].extensions.code).toBe('RATE_LIMIT_EXCEEDED');
});

it('a GraphQL document costs by the limit of each history', async () => {
  service.clock.advance(60_000);
  const history = (limit: number) =>
    `deviceHistory(id: "${id}", property: "level", step: "raw", limit: ${limit}) { samples { value } }`;
  const post = (text: string, variables = {}) =>
    service.call('POST', '/graphql', { token: owner.token, body: { query: text, variables } });
  expect((await post(`{ ${history(9_980)} }`)).body.errors).toBeUndefined();
  expect((await post(`{ ${history(10_000)} }`)).status).toBe(400);
  expect((await post(`{ a: ${history(5_000)} b: ${history(5_000)} }`)).status).toBe(400);
  const aliases = [...Array(5).keys()].map((n) => `a${n}: ${history(1_900)}`).join(' ');
  expect((await post(`{ ${aliases} }`)).body.errors).toBeUndefined();
  const byVariable = `query ($n: Int) { ${history(1).replace('limit: 1)', 'limit: $n)')} }`;
  expect((await post(byVariable, { n: 10_000 })).status).toBe(400);
  const { body } = await post(byVariable, { n: 3 });
  expect(body.data.deviceHistory.samples).toHaveLength(3);
  const fragment = `fragment f on DeviceHistory { samples { value } }
    { a: ${history(6_000).replace('{ samples { value } }', '{ ...f }')} b: ${history(6_000).replace('{ samples { value } }', '{ ...f }')} }`;
  expect((await post(fragment)).status).toBe(400);
});

it('a query of many series costs by its points, roll-ups and series', async () => {
  const left = async (count: number, body: object) => {
    const series = Array.from({ length: count }, (_, n) => ({ device_id: id, property: `p${n}` }));
    const answer = await service.call('POST', '/v1/history/query', { token: owner.token, body: { series, ...body } });
    expect(answer.status).toBe(200);
    return Number(/;r=(\d+)/.exec(answer.headers.get('ratelimit') ?? '')?.[1]);
  };
  expect(await left(25, { step: '1h' })).toBe(11);
  expect(await left(26, { step: '1h' })).toBe(9);
  expect(await left(10, { step: 'raw' })).toBe(4);
  expect(await left(10, { step: 'raw', limit: 100 })).toBe(3);
  service.clock.advance(60_000);
  expect(await left(100, { step: '1h' })).toBe(8);
});

it('a query of selected devices also costs by the properties that it looks for in the history', async () => {
  const { token } = owner;
  const [home] = (await service.call('GET', '/v1/homes', { token })).body.homes;
  const second = { device_type: 'smart_light', home_id: home.id };
  expect((await service.call('POST', '/v1/device/register', { token, body: second })).status).toBe(201);
  const left = async (properties: string[]) => {
    const body = { devices: { category: 'light' }, properties, step: '1h' };
    const answer = await service.call('POST', '/v1/history/query', { token, body });
    expect(answer.status).toBe(200);
    return Number(/;r=(\d+)/.exec(answer.headers.get('ratelimit') ?? '')?.[1]);
  };
  service.clock.advance(60_000);
  expect(await left(['brightness'])).toBe(11);
  expect(await left(['brightness', 'level'])).toBe(9);
  // Two devices have 40 of them.
  expect(await left(Array.from({ length: 20 }, (_, n) => `p${n}`))).toBe(6);
});
