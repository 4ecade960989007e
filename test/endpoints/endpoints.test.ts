import { randomUUID } from 'node:crypto';
import { v4, v7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RefusalCode, refusals } from '../../src/domain/refusals.ts';
import { type Role, roles } from '../../src/domain/roles.ts';
import { routes } from '../../src/edges/rest/routes.ts';
import { installFakeSidecar } from '../support/fake-sidecar.ts';
import type { CallOptions, CallResult, HttpService } from '../support/http-service.ts';
import { makeResponseValidator, type ResponseValidator } from '../support/response-validator.ts';
import { startHttpServiceOnDatabase } from '../support/test-tenant.ts';
import type { Ask, Row } from './endpoint.ts';
import { makeWorld, type World } from './endpoint-fixtures.ts';
import { table } from './endpoint-table.ts';

const UUIDS = /[0-9a-f]{8}-[0-9a-f-]{27}/g;
const ROOTS = ['/v1', '/api/v1'];

const nameOf = ({ method, path }: { method: string; path: string }): string => `${method} ${path}`;
const served = new Set([...routes.map(nameOf), 'GET /metrics']);
const rows = table.map((row) => [nameOf(row), row] as const);

let service: HttpService;
let mine: World;
let other: World;
let parked: World;
// biome-ignore lint/suspicious/noExplicitAny: a document as a stranger reads it
let document: any;
let shapes: ResponseValidator;

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  installFakeSidecar(service.services);
  mine = await makeWorld(service);
  other = await makeWorld(service);
  parked = await makeWorld(service);
  document = (await service.call('GET', '/openapi.json')).body;
  shapes = makeResponseValidator(document);
});
afterAll(() => service.close());

const rootsOf = ({ root }: Row): string[] => (root === 'only' ? [''] : root === 'too' ? [...ROOTS, ''] : ROOTS);
const firstRoot = (row: Row): string => rootsOf(row)[0] as string;

/** The token of a user with exactly this role. */
async function tokenOf(world: World, role: Row['role']): Promise<string | undefined> {
  if (role === 'open') return undefined;
  if (role === 'platform') return world.operator;
  return role === 'none' ? service.token(v7()) : world.tokens[role];
}

function send(
  row: Row,
  root: string,
  { path, body, headers, token }: Ask,
  sent: CallOptions = {},
): Promise<CallResult> {
  return service.call(row.method, root + path, {
    ...(body !== undefined && { body }),
    ...(headers !== undefined && { headers }),
    ...(token !== undefined && { token }),
    ...sent,
  });
}

const asRole = async (row: Row, world: World, request: Ask): Promise<CallOptions> => {
  const token = request.token ?? (await tokenOf(world, row.role));
  return token === undefined ? {} : { token };
};

const keys = new Map<string, string>();
/** An API key of the owner with only these scopes. */
async function keyWith(...scopes: string[]): Promise<string> {
  const key = keys.get(`${scopes}`) ?? (await mine.apiKey(undefined, scopes)).key;
  keys.set(`${scopes}`, key);
  return key;
}

const refused = (received: CallResult, code: RefusalCode): void => {
  expect(received.body).toMatchObject({ code, status: refusals[code].status });
  expect(received.status).toBe(refusals[code].status);
};

function assertShape(row: Row, { status, headers, body }: CallResult): void {
  const type = headers.get('content-type')?.split(';')[0] ?? '';
  expect(shapes(row.method, row.path, { status, type, body })).toBeNull();
}

describe('the table', () => {
  it('has every served route, and every row is served', () => {
    const rowNames = table.map(nameOf);
    expect(new Set(rowNames).size).toBe(rowNames.length);
    expect([...served].filter((name) => !rowNames.includes(name))).toEqual([]);
    expect(rowNames.filter((name) => !served.has(name))).toEqual([]);
  });
});

/** Pages for browsers and scrapers, which are not operations. */
const pages: [path: string, roots: string[], type: string][] = [
  ['/auth/cli?code=x&challenge=y', ROOTS, 'application/problem+json'],
  ['/auth/login', ROOTS, 'application/problem+json'],
  ['/auth/callback', ROOTS, 'application/problem+json'],
  ['/metrics', [...ROOTS, ''], 'text/plain'],
  ['/docs', [''], 'text/html'],
  ['/docs/events', [''], 'text/html'],
  ['/openapi.json', [''], 'application/json'],
  ['/asyncapi.json', [''], 'application/json'],
  ['/.well-known/jwks.json', [''], 'application/jwk-set+json'],
  ['/.well-known/oauth-protected-resource', [''], 'application/json'],
  ['/.well-known/oauth-protected-resource/mcp', [''], 'application/json'],
];

describe('the pages', () => {
  it.each(pages)('%s is served at the path in the contract, with the standard headers', async (path, roots, type) => {
    for (const root of ['', ...ROOTS]) {
      const { status, headers, body } = await service.call('GET', root + path);
      expect(headers.get('x-api-version')).toBe('1');
      expect(headers.get('content-type')?.split(';')[0]).toBe(roots.includes(root) ? type : 'application/problem+json');
      if (!roots.includes(root))
        expect([root, status, body.detail]).toEqual([root, 404, 'There is nothing at this path.']);
      else expect(body.detail).not.toBe('There is nothing at this path.');
    }
  });

  it('and the rows are everything that is documented', () => {
    const documented = Object.entries<object>(document.paths).flatMap(([path, item]) =>
      Object.keys(item)
        .filter((key) => key !== 'servers')
        .map((method) => `${method.toUpperCase()} ${path}`),
    );
    const known = [...table.map(nameOf), ...pages.map(([path]) => `GET ${path.replace(/\?.*/, '')}`)];
    expect(documented.filter((name) => !known.includes(name))).toEqual([]);
    expect(table.map(nameOf).filter((name) => !documented.includes(name))).toEqual([]);
  });
});

describe.each(rows)('%s', (_, row) => {
  const isOpen = row.role === 'open';
  const changes = row.method !== 'GET' && row.reads !== true;

  it(`answers ${row.status} in its documented shape, with the standard headers, under each of its roots`, async () => {
    for (const root of rootsOf(row)) {
      const request = await row.request(mine, await tokenOf(mine, row.role));
      const requestId = randomUUID();
      const sent = await asRole(row, mine, request);
      const received = await send(row, root, request, {
        ...sent,
        headers: { ...request.headers, 'x-request-id': requestId },
      });
      expect([root, received.status, received.body]).toEqual([root, row.status, received.body]);
      assertShape(row, received);
      expect(received.headers.get('x-api-version')).toBe('1');
      expect(received.headers.get('x-protocol-version')).toBe('PROTO/3.0');
      expect(received.headers.get('x-request-id')).toBe(requestId);
    }
  });

  it('is served at no other root', async () => {
    const request = await row.request(mine);
    const sent = await asRole(row, mine, request);
    for (const root of ['', ...ROOTS, '/api', '/v2'].filter((one) => !rootsOf(row).includes(one))) {
      const { status } = await send(row, root, request, sent);
      expect([root, status]).toEqual([root, 404]);
    }
  });

  it('is documented with its role and scope', () => {
    const operation = document.paths[row.path][row.method.toLowerCase()];
    const role = row.role === 'open' ? null : row.role === 'platform' ? 'none' : row.role;
    expect(operation['x-role']).toBe(role);
    expect(operation['x-scope']).toBe(row.role === 'platform' ? 'platform:admin' : row.scope);
    expect(operation['x-also-scope']).toBe(row.alsoScope);
    expect(operation.security.filter((one: object) => Object.keys(one).length > 0).length > 0).toBe(
      !isOpen || row.path === '/auth/logout',
    );
  });

  it('has no other method', async () => {
    const request = await row.request(mine);
    const others = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter(
      (method) => !table.some((one) => one.path === row.path && one.method === method),
    );
    const path = firstRoot(row) + request.path.replace(/\?.*/, '');
    for (const method of others) {
      // Another row can match the same path.
      const received = await service.call(method, path, { token: mine.operator });
      if (received.status !== 405) continue;
      expect(received.headers.get('allow')).toContain(row.method);
      expect(received.body.code).toBe('METHOD_NOT_ALLOWED');
    }
  });

  if (!isOpen) {
    it('is refused without a credential, and with an invalid one', async () => {
      const request = await row.request(mine);
      for (const token of [undefined, 'junk', 'tk_abcdefgh_0123456789', `${mine.tokens.owner}x`]) {
        const received = await send(
          row,
          firstRoot(row),
          { path: request.path, body: request.body },
          token ? { token } : {},
        );
        refused(received, 'UNAUTHENTICATED');
        expect(received.headers.get('www-authenticate')).toMatch(/^Bearer /);
      }
    });
  }

  if (row.role === 'platform') {
    it('is refused to everyone but platform operators, including the owner of a tenant', async () => {
      const request = await row.request(mine);
      for (const role of ['owner', 'viewer'] as const) {
        refused(await send(row, firstRoot(row), request, { token: mine.tokens[role] }), 'FORBIDDEN');
      }
    });
  } else if (row.role !== 'open' && row.role !== 'none') {
    const { role } = row;
    it(`is allowed from ${role} on`, async () => {
      for (const one of roles.slice(roles.indexOf(role)) as Exclude<Role, 'none'>[]) {
        const token = mine.tokens[one];
        const request = await row.request(mine, token);
        const { status } = await send(row, firstRoot(row), request, { token: request.token ?? token });
        expect([one, status]).toEqual([one, row.status]);
      }
    });

    it(`is refused below ${role}, and to a user without a tenant`, async () => {
      const request = await row.request(mine);
      for (const one of roles.slice(1, roles.indexOf(role)) as Exclude<Role, 'none'>[]) {
        refused(await send(row, firstRoot(row), request, { token: mine.tokens[one] }), 'FORBIDDEN_ROLE');
      }
      refused(await send(row, firstRoot(row), request, { token: await service.token(v7()) }), 'TENANT_REQUIRED');
    });

    it(`is ${row.suspended ? 'allowed' : 'refused'} in a suspended tenant`, async () => {
      const request = await row.request(parked);
      const asOperator = (verb: string) =>
        service.call('POST', `/v1/admin/tenants/${parked.tenantId}/${verb}`, { token: parked.operator, body: {} });
      await asOperator('suspend');
      const received = await send(row, firstRoot(row), request, { token: parked.tokens.owner });
      await asOperator('resume');
      if (row.suspended) expect(received.status).toBe(row.status);
      else refused(received, 'TENANT_SUSPENDED');
    });
  }

  if (row.scope !== null && row.role !== 'none') {
    const { scope, alsoScope, confirmedScope } = row;
    it(`is ${row.person ? 'refused to every key' : `allowed to a key with ${scope}`}, and refused to one without`, async () => {
      const fitting = await keyWith(scope, ...[alsoScope, confirmedScope].filter((one) => one !== undefined));
      const request = await row.request(mine);
      const received = await send(row, firstRoot(row), { ...request, token: fitting });
      if (row.person) refused(received, 'FORBIDDEN');
      else expect([received.status, received.body]).toEqual([row.status, received.body]);

      const wanting = await keyWith(scope === 'read:audit' ? 'read:homes' : 'read:audit');
      const headers = { ...request.headers, 'x-api-key': wanting };
      refused(
        await send(row, firstRoot(row), { path: request.path, body: request.body, headers }),
        'INSUFFICIENT_SCOPE',
      );
      if (alsoScope === undefined) return;
      const half = await row.request(mine);
      refused(await send(row, firstRoot(row), { ...half, token: await keyWith(scope) }), 'INSUFFICIENT_SCOPE');
    });
  }

  if (row.path.includes('{') && row.role !== 'platform' && !isOpen && !row.common) {
    it('answers the same for subjects of another tenant as for missing ones', async () => {
      const foreign = await row.request(other);
      const own = await row.request(mine);
      const sent = { token: mine.tokens.owner, body: own.body, headers: own.headers ?? {} };
      const received = await send(row, firstRoot(row), { path: foreign.path }, sent);
      refused(received, 'NOT_FOUND');
      const nowhere = foreign.path.replace(UUIDS, () => v4()).replace(other.name, 'nowhere');
      const missing = await send(row, firstRoot(row), { path: nowhere }, sent);
      const { instance: _, request_id: __, ...sentMessages } = received.body;
      expect(missing.body).toMatchObject(sentMessages);
      expect(Object.keys(missing.body)).toEqual(Object.keys(received.body));
    });
  }

  if (row.foreign !== undefined) {
    it('finds no ids of another tenant in its body', async () => {
      const received = await send(row, firstRoot(row), await row.request(other), { token: mine.tokens.owner });
      if (row.foreign === 'body') refused(received, 'NOT_FOUND');
      else expect(received.body.results).toEqual([expect.objectContaining({ success: false, code: 'NOT_FOUND' })]);
    });
  }

  if (changes) {
    it(`${row.goesOn ? 'goes on' : 'is refused'} under maintenance`, async () => {
      const request = await row.request(mine, await tokenOf(mine, row.role));
      const sent = await asRole(row, mine, request);
      await service.flags.set('maintenance_mode', true);
      try {
        const received = await send(row, firstRoot(row), request, sent);
        if (row.goesOn) return void expect(received.status).toBe(row.status);
        refused(received, 'MAINTENANCE');
        expect(received.headers.get('retry-after')).toMatch(/^\d+$/);
      } finally {
        await service.flags.set('maintenance_mode', false);
      }
    });
  }

  if (row.method === 'POST' && changes && !isOpen) {
    it('applies a repeated request with the same Idempotency-Key once', async () => {
      const request = await row.request(mine, await tokenOf(mine, row.role));
      const sent = await asRole(row, mine, request);
      const headers = { ...request.headers, 'idempotency-key': v4() };
      const first = await send(row, firstRoot(row), request, { ...sent, headers });
      const again = await send(row, firstRoot(row), request, { ...sent, headers });
      expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([row.status, null]);
      expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([row.status, 'true']);
      expect(again.body).toEqual(first.body);
    });
  }

  it('refuses unknown members', async () => {
    const request = await row.request(mine);
    const sent = await asRole(row, mine, request);
    const inQuery = request.path + (request.path.includes('?') ? '&' : '?');
    if (nameOf(row) !== 'GET /metrics') {
      refused(
        await send(row, firstRoot(row), { ...request, path: `${inQuery}no_such_member=1` }, sent),
        'VALIDATION_FAILED',
      );
    }
    if (row.method === 'GET' || row.method === 'DELETE' || row.bytes) return;
    const body = { ...(request.body as object), no_such_member: 1 };
    refused(await send(row, firstRoot(row), request, { ...sent, body }), 'VALIDATION_FAILED');
  });

  if (row.method !== 'GET' && row.method !== 'DELETE' && !row.bytes) {
    it('accepts only a complete JSON body of at most 256 KiB', async () => {
      const request = await row.request(mine);
      const sent = await asRole(row, mine, request);
      const root = firstRoot(row);
      for (const body of ['{', '{"a":1,"a":2}', '[]', '"x"', '{"a":"\\u0000"}', '{"a":"\\ud800"}']) {
        refused(await send(row, root, request, { ...sent, body }), 'VALIDATION_FAILED');
      }
      const deep = `{"a":${'['.repeat(40)}${']'.repeat(40)}}`;
      refused(await send(row, root, request, { ...sent, body: deep }), 'VALIDATION_FAILED');
      const headers = { 'content-type': 'text/plain' };
      refused(await send(row, root, request, { ...sent, body: '{}', headers }), 'UNSUPPORTED_MEDIA_TYPE');
      const large = JSON.stringify({ a: 'x'.repeat(256 * 1024) });
      refused(await send(row, root, request, { ...sent, body: large }), 'PAYLOAD_TOO_LARGE');
    });
  }

  it.each(Object.entries(row.refusals ?? {}))('can answer %s', async (code, make) => {
    const request = await make(mine);
    const token = request.token ?? (row.role === 'platform' ? mine.operator : mine.tokens.owner);
    const received = await send(row, firstRoot(row), request, { token });
    expect([received.status, received.body.code]).toEqual([refusals[code as RefusalCode].status, code]);
    if (code !== 'DRY_RUN_REQUIRED') expect(received.headers.get('content-type')).toBe('application/problem+json');
    assertShape(row, received);
  });
});
