import { afterAll, beforeAll, expect, it } from 'vitest';
import { queryGraphql } from '../support/graphql.ts';
import { type HttpService, startHttpService } from '../support/http-service.ts';
import type { MemoryStore } from '../support/memory-store.ts';

let service: HttpService<MemoryStore>;
let token: string;
beforeAll(async () => {
  service = await startHttpService();
  ({ token } = await service.owner());
  for (let n = 0; n < 51; n++) await service.call('POST', '/v1/homes', { token, body: { home_name: `Home ${n}` } });
});
afterAll(() => service.close());

const get = (path: string) => service.call('GET', `/v1${path}`, { token });

it('a page has up to 200 entries by default, and the count of all pages', async () => {
  const { body } = await get('/homes');
  expect([body.homes.length, body.count, body.next_cursor]).toEqual([51, 51, null]);
  const first = (await get('/homes?limit=20')).body;
  expect([first.homes.length, first.count]).toEqual([20, 51]);
  const second = (await get(`/homes?limit=20&cursor=${encodeURIComponent(first.next_cursor)}`)).body;
  expect([second.homes.length, second.count]).toEqual([20, 51]);
});

it('the count follows the filters and what the credential may see', async () => {
  const { homes } = (await get('/homes?limit=2')).body;
  const body = { name: 'one', scopes: ['read:homes'], restrict_to: { homes: [homes[0].id] } };
  const { key } = (await service.call('POST', '/v1/auth/api-keys', { token, body })).body;
  expect((await service.call('GET', '/v1/homes', { token: key })).body).toMatchObject({ homes: [homes[0]], count: 1 });
});

it.each([
  ...['/auth/api-keys', '/auth/sessions', '/tenant/members', '/groups', '/plans', '/memories', '/confirmations'],
  ...['/change-requests', '/firmware', '/cognition/proposals', '/actors', '/audit', '/devices', '/tags'],
])('%s has a count', async (path) => {
  const { status, body } = await get(path);
  expect(status).toBe(200);
  const [list] = Object.values(body).filter(Array.isArray);
  expect(body.count).toBe((list as unknown[]).length);
});

it('a list of several pages from several sources is not counted', async () => {
  const { body } = await get('/audit?limit=1');
  expect([body.entries.length, body.count]).toEqual([1, null]);
});

it('GraphQL and platform operators get the count too', async () => {
  const { body } = await queryGraphql(service, '{ homes(first: 3) { totalCount nodes { id } } }', { token });
  expect(body.data.homes).toMatchObject({ totalCount: 51, nodes: { length: 3 } });
  const operator = await service.token('operator', { scope: 'platform:admin' });
  const { headers, body: tenants } = await service.call('GET', '/v1/admin/tenants?limit=1', { token: operator });
  expect([tenants.length, headers.get('x-total-count')]).toEqual([
    1,
    `${(await service.store.administration.tenants(1)).items.length}`,
  ]);
});

it.each(['2026-03-01T13:00:00+01:00', '2026-03-01T12:00:00.5-00:30', '2026-03-01T12:00:00Z'])(
  'a time may be %s',
  async (time) => {
    expect((await get(`/audit?from=${encodeURIComponent(time)}`)).status).toBe(200);
  },
);

it('a time with an offset is stored as the instant that it names', async () => {
  const body = { kind: 'observation', content: 'y', expires_at: '2099-01-01T01:00:00+01:00' };
  const made = await service.call('POST', '/v1/memories', { token, body });
  expect([made.status, made.body.memory.expires_at]).toEqual([201, '2099-01-01T00:00:00.000Z']);
});

it('a tenant shows itself to its own people', async () => {
  const { status, body } = await get('/tenant');
  expect(status).toBe(200);
  expect(body.tenant).toMatchObject({
    name: expect.any(String),
    slug: expect.any(String),
    tier: 'free',
    status: 'active',
  });
  expect(body.tenant.created_at).toEqual({ _seconds: expect.any(Number), _nanoseconds: expect.any(Number) });
});
