import { getIntrospectionQuery } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildPages } from '../../../scripts/build-pages.ts';
import { documentLimits } from '../../../src/edges/graphql/document-limits.ts';
import { queryGraphql } from '../../support/graphql.ts';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let closed: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  await buildPages('reference');
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
  closed = await startHttpServiceOnDatabase({ production: true });
});
afterAll(() => Promise.all([service.close(), closed.close()]));

const request = (query: string) => queryGraphql(service, query, { token: mine.tokens.owner });

/** `home` and `room` refer to each other, to any depth. */
const deep = (levels: number): string => {
  const inside = Array.from({ length: levels - 3 }, (_, n) => (n % 2 === 0 ? 'home' : 'rooms(first: 1)'));
  return `{ rooms(homeId: "${mine.homeId}", first: 1) { nodes { ${inside.join(' { ')} { id } ${'}'.repeat(inside.length - 1)} } } }`;
};

describe('an operation', () => {
  it('can be 12 fields deep, and no deeper', async () => {
    expect((await request(deep(12))).status).toBe(200);
    const { status, body } = await request(deep(13));
    expect([status, body.errors[0].message]).toEqual([400, 'An operation can nest fields 12 deep; this one has 13.']);
  });

  it('can be no deeper with fragments, each expanded once', async () => {
    const fragments = Array.from(
      { length: 40 },
      (_, n) =>
        `fragment F${n} on Room { home { rooms(first: 1) { ${n === 39 ? 'id' : `...F${n + 1} ...F${n + 1}`} } } }`,
    );
    const { status, body } = await request(
      `{ rooms(homeId: "${mine.homeId}") { nodes { ...F0 } } } ${fragments.join(' ')}`,
    );
    expect([status, body.errors[0].message]).toEqual([400, expect.stringMatching(/can nest fields 12 deep/)]);
  });

  it.each([
    ['aliases', `{ ${Array.from({ length: 31 }, (_, n) => `a${n}: version { version }`).join(' ')} }`],
    ['aliases inside', `{ version { ${Array.from({ length: 31 }, (_, n) => `a${n}: version`).join(' ')} } }`],
    ['directives', `{ version { version ${'@a'.repeat(21)} } }`],
    ['known directives', `{ version { ${'version @include(if: true) '.repeat(21)} } }`],
    ['selections', `{ version { ${'version '.repeat(501)} } }`],
    ['tokens', `{ version { ${'version '.repeat(10_001)} } }`],
    ['brackets', `{ version(a: ${'['.repeat(9_000)}) { version } }`],
  ])('that overloads the service with %s is 400, for any Accept header', async (_, query) => {
    for (const accept of ['application/json', 'application/graphql-response+json', '*/*']) {
      const { status, headers, body } = await queryGraphql(service, query, {
        token: mine.tokens.owner,
        headers: { accept },
      });
      expect(status).toBe(400);
      expect(headers.get('content-type')).toContain(accept === '*/*' ? 'application/json' : accept);
      expect(body.data).toBeUndefined();
      expect(body.errors).toHaveLength(1);
    }
  });

  it('costs what it may return, by the arguments and variables that set the number', async () => {
    const fields = 'id name home { homeName rooms(first: 40) { id name } }';
    const costly = `query ($n: Int = 200) { devices(first: $n) { nodes { ${fields} } } }`;
    const { status, body } = await request(costly);
    expect([status, body.errors[0].extensions.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect(body.errors[0].message).toMatch(/can cost 10000 points; this one costs \d{4,}/);
    const fewer = await queryGraphql(service, costly, { token: mine.tokens.owner, variables: { n: 10 } });
    expect(fewer.status).toBe(200);
  });

  it('changes at most a hundred records', async () => {
    const change = (n: number) =>
      `mutation { ${Array.from({ length: n }, (_, i) => `a${i}: deleteHome(input: {homeId: "x"}) { __typename }`).join(' ')} }`;
    expect((await request(change(30))).status).toBe(200);
    expect((await request(change(31))).status).toBe(400);
    expect(documentLimits.cost / 100).toBe(100);
  });

  it('for another tenant finds nothing', async () => {
    const other = await makeTestTenant(service);
    const { device_id: id } = await other.register();
    const query = `{ device(id: "${id}") { id } rooms(homeId: "${other.homeId}") { nodes { id } } manifest(deviceId: "${id}") { version } }`;
    const { body } = await request(query);
    expect(body.data).toEqual({ device: null, rooms: null, manifest: null });
    expect(body.errors.map((one: { extensions: { code: string } }) => one.extensions.code)).toEqual(
      Array(3).fill('NOT_FOUND'),
    );
  });

  it('is refused with a string that no store accepts, as literal or variable', async () => {
    const literal = 'mutation { createHome(input: {homeName: "a\\u0000b"}) { ... on Refused { code } } }';
    expect((await request(literal)).body.data.createHome.code).toBe('VALIDATION_FAILED');
    const { device_id: id } = await mine.register();
    const odd = `mutation { commandDevice(input: {deviceId: "${id}", action: "turn_on", params: {__proto__: {a: 1}, b: 1e999}}) { ... on Refused { code } } }`;
    expect((await request(odd)).body.errors[0].message).toBe('The number is too large.');
    const nested = `mutation { commandDevice(input: {deviceId: "${id}", action: "turn_on", params: {a: ${'['.repeat(40)}${']'.repeat(40)}}}) { ... on Refused { code } } }`;
    expect((await request(nested)).body.data.commandDevice.code).toMatch(/VALIDATION_FAILED|PARAMS_INVALID/);
  });
});

describe('the schema', () => {
  it('is public outside production', async () => {
    const { body } = await queryGraphql(service, getIntrospectionQuery());
    expect(body.data.__schema.queryType.name).toBe('Query');
  });

  it('can be queried only to its own depth', async () => {
    const inside = (n: number): string => (n === 0 ? 'name' : `fields { type { ${inside(n - 1)} } }`);
    const { body } = await request(`{ __schema { types { ${inside(6)} } } }`);
    expect(body.errors[0].message).toMatch(/introspection depth/i);
  });

  it('can be queried a few times per operation, not many', async () => {
    const times = (n: number) =>
      request(`{ ${Array.from({ length: n }, (_, i) => `a${i}: __schema { types { name } }`).join(' ')} }`);
    expect((await times(4)).status).toBe(200);
    const { status, body } = await times(6);
    expect([status, body.errors[0].message]).toEqual([400, expect.stringMatching(/can cost 10000 points/)]);
  });

  it('is not concerned by a string that contains its name', async () => {
    const theirs = await makeTestTenant(closed);
    const named = 'mutation { createHome(input: {homeName: "__schema"}) { __typename } }';
    const { body } = await queryGraphql(closed, named, { token: theirs.tokens.admin });
    expect(body.data.createHome.__typename).toBe('Created');
    const inside = '{ ...F } fragment F on Query { ... { __type(name: "Device") { name } } }';
    expect((await queryGraphql(closed, inside, { token: theirs.tokens.user })).body.code).toBe('FORBIDDEN_ROLE');
    const search = '{ memories(q: "__schema") { nodes { id } } }';
    const found = await queryGraphql(closed, search, { token: theirs.tokens.user });
    expect(found.body).toEqual({ data: { memories: { nodes: [] } } });
  });

  it('is shown in production to administrators only, without suggestions for others', async () => {
    const theirs = await makeTestTenant(closed);
    const look = (token?: string) =>
      queryGraphql(closed, getIntrospectionQuery(), token === undefined ? {} : { token });
    expect((await look()).body.code).toBe('UNAUTHENTICATED');
    expect((await look(theirs.tokens.user)).body.code).toBe('FORBIDDEN_ROLE');
    expect((await look(theirs.tokens.admin)).body.data.__schema.queryType.name).toBe('Query');
    const hinted = await queryGraphql(closed, '{ device { id } devicez { id } __type(name: "Device") { name } }', {
      token: theirs.tokens.user,
    });
    expect(JSON.stringify(hinted.body)).not.toMatch(/did you mean/i);
    expect((await queryGraphql(closed, '{ __typename version { version } }')).status).toBe(200);
  });
});

describe('the explorer', () => {
  const page = (where: HttpService, token?: string) =>
    where.call('GET', '/graphql', { headers: { accept: 'text/html' }, ...(token !== undefined && { token }) });

  it('is a page without anything inline or external', async () => {
    const { status, headers, body } = await page(service);
    expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    const linked = [...body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path as string);
    expect(linked.every((path) => /^(\/|#content$)/.test(path))).toBe(true);
    expect(body).not.toMatch(/<style|style=| on\w+="|<script>/);
    for (const path of linked.filter((path) => path.startsWith('/docs/assets/')))
      expect([path, (await service.call('GET', path)).status]).toEqual([path, 200]);
    expect(linked.some((path) => /^\/docs\/assets\/graphql-[\w-]+\.js$/.test(path))).toBe(true);
  });

  it('is a page also for a browser whose session has ended', async () => {
    const ended = { accept: 'text/html', cookie: '__Host-session=ended; session=ended', authorization: 'Bearer ended' };
    const { status, headers } = await service.call('GET', '/graphql', { headers: ended });
    expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    expect((await service.call('GET', '/graphql?query=%7B__typename%7D', { headers: ended })).status).toBe(401);
  });

  it('is for administrators in production', async () => {
    const theirs = await makeTestTenant(closed);
    expect((await page(closed)).status).toBe(401);
    expect((await page(closed, theirs.tokens.user)).status).toBe(403);
    expect((await page(closed, theirs.tokens.admin)).status).toBe(200);
  });
});
