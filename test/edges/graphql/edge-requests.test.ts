import { v4 } from 'uuid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { queryGraphql } from '../../support/graphql.ts';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const request = (query: string, more: Parameters<typeof queryGraphql>[2] = {}) =>
  queryGraphql(service, query, { token: mine.tokens.owner, ...more });

describe('a request', () => {
  it('for a subscription is answered with where subscriptions are served', async () => {
    const { body } = await request('subscription { stateChanged { deviceId } }');
    expect(body).toMatchObject({
      errors: [{ message: expect.stringContaining('WebSocket'), extensions: { code: 'VALIDATION_FAILED' } }],
    });
  });

  it('with an invalid document or invalid variables has a code, a status and its request id in each error', async () => {
    const wrong: [query: string, variables?: object][] = [
      ['{'],
      ['{ me { nowhere } }'],
      ['{ devices(first: "two") { totalCount } }'],
      ['query ($first: Int) { devices(first: $first) { totalCount } }', { first: 'two' }],
      ['query ($id: ID!) { device(id: $id) { id } }'],
    ];
    for (const [query, variables] of wrong) {
      const requestId = v4();
      const { body } = await request(query, {
        headers: { 'x-request-id': requestId },
        ...(variables && { variables }),
      });
      expect([query, body.errors.map((one: { extensions: object }) => one.extensions)]).toEqual([
        query,
        [{ code: 'VALIDATION_FAILED', status: 400, requestId }],
      ]);
    }
  });

  it('with an invalid value is answered with its place and the reason, and without values', async () => {
    const command = 'mutation ($input: CommandDeviceInput!) { commandDevice(input: $input) { __typename } }';
    const params = { pin: '7391: 2846' };
    const cases: [query: string, variables: object, message: string][] = [
      [command, { input: { deviceId: v4(), params } }, 'to include required field "action".'],
      [command, { input: { deviceId: v4(), action: 'a', parms: params } }, 'unknown field "parms"'],
      [command, { input: [params] }, 'to be an object.'],
      [command, { input: { deviceId: v4(), action: params } }, '.action: String cannot represent a non string value.'],
      [`mutation { commandDevice(input: {params: {pin: "7391"}}) { __typename } }`, {}, 'required field "action"'],
      ['query ($first: Int) { devices(first: $first) { totalCount } }', { first: '7391' }, 'non-integer value.'],
      ['{ devices(first: "7391") { totalCount } }', {}, 'Int cannot represent non-integer value.'],
      ['mutation { commandDevice(input: {dryRun: "7391"}) { __typename } }', {}, 'a non boolean value.'],
      ['mutation { commandDevice(input: {parms: {pin: "7391"}}) { __typename } }', {}, 'unknown field "parms"'],
      ['mutation { commandDevice(input: {params: {pin "7391"}}) { __typename } }', {}, 'Expected ":", found String.'],
      ['mutation { commandDevice(input: {params: {pin: 1} 7391}) { __typename } }', {}, 'Expected Name, found Int.'],
      ['mutation { commandDevice(input: {params: {pin: 1} """7391"""}) { __typename } }', {}, 'found BlockString.'],
    ];
    for (const [query, variables, message] of cases) {
      const { body } = await request(query, { variables });
      const messages = body.errors.map((one: { message: string }) => one.message);
      expect(messages).toContainEqual(expect.stringContaining(message));
      expect(JSON.stringify(body)).not.toContain('7391');
    }
  });

  it('has the standard headers in its response, and is charged', async () => {
    const requestId = v4();
    const { status, headers, body } = await request('{ me { user { role } } }', {
      headers: { 'x-request-id': requestId },
    });
    expect([status, body]).toEqual([200, { data: { me: { user: { role: 'OWNER' } } } }]);
    expect(headers.get('x-request-id')).toBe(requestId);
    expect(headers.get('x-api-version')).toBe('1');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(headers.get('cache-control')).toBe('no-store');
  });

  it('is a problem document if it is not a GraphQL request', async () => {
    const post = (body: unknown, headers = {}) =>
      service.call('POST', '/graphql', { token: mine.tokens.owner, body, headers });
    const wrong = [
      ...[
        '{',
        '{"query":"{ status { beta } }","query":"{ me { hasTenant } }"}',
        '[]',
        '"x"',
        '{"query":"{a}","variables":{"a":"\\u0000"}}',
      ],
      ...['{"query":"{a}","variables":{"a":"\\ud800"}}', { query: '{ me { hasTenant } }', stray: 1 }, { query: 1 }, {}],
      ...[
        { query: '{ version { version } }', variables: 'x' },
        { query: '{ version { version } }', operationName: 1 },
      ],
    ];
    for (const body of wrong) {
      const { status, headers, body: answer } = await post(body);
      expect([body, status, answer.code]).toEqual([body, 400, 'VALIDATION_FAILED']);
      expect(headers.get('content-type')).toBe('application/problem+json');
    }
    expect((await post('{}', { 'content-type': 'text/plain' })).body.code).toBe('UNSUPPORTED_MEDIA_TYPE');
    const large = { query: '{ version { version } }', variables: { a: 'x'.repeat(256 * 1024) } };
    expect((await post(large)).body.code).toBe('PAYLOAD_TOO_LARGE');
    const elsewhere = await service.call('GET', '/graphql/nowhere', { token: mine.tokens.owner });
    expect([elsewhere.status, elsewhere.body.code]).toEqual([404, 'NOT_FOUND']);
    const put = await service.call('PUT', '/graphql', { token: mine.tokens.owner });
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST, OPTIONS']);
  });

  it('requires a credential only if its fields do', async () => {
    expect((await queryGraphql(service, '{ status { system } version { protocol } }')).body.data.status.system).toBe(
      'Twinkeep',
    );
    for (const query of ['{ homes { nodes { id } } }', 'query { ...F } fragment F on Query { me { hasTenant } }']) {
      const { status, headers, body } = await queryGraphql(service, query);
      expect([status, body.code]).toEqual([401, 'UNAUTHENTICATED']);
      expect(headers.get('www-authenticate')).toMatch(/^Bearer /);
    }
    expect((await queryGraphql(service, '{ version { version } }', { token: 'junk' })).status).toBe(401);
  });

  it('returns allowed fields, and an error for each of the others', async () => {
    const { body } = await request('{ homes { nodes { homeName } } policy { confirmBy } }', {
      token: mine.tokens.viewer,
    });
    expect(body.data).toEqual({ homes: { nodes: [{ homeName: 'Lakeside' }] }, policy: null });
    expect(body.errors).toEqual([
      expect.objectContaining({
        message: 'This operation requires the role admin.',
        path: ['policy'],
        extensions: { code: 'FORBIDDEN_ROLE', status: 403, requestId: expect.any(String) },
      }),
    ]);
  });

  it('by GET reads, and changes nothing', async () => {
    const query = (text: string) => `/graphql?query=${encodeURIComponent(text)}`;
    const read = await service.call('GET', query('{ version { version } }'), { token: mine.tokens.owner });
    expect(read.body.data.version.version).toBe('1.0.0');
    const change = 'mutation { createHome(input: {homeName: "By GET"}) { __typename } }';
    const { status, headers } = await service.call('GET', query(change), { token: mine.tokens.owner });
    expect([status, headers.get('allow')]).toEqual([405, 'POST']);
    expect((await request('{ homes { nodes { homeName } } }')).body.data.homes.nodes).toHaveLength(1);
    expect((await service.call('GET', '/graphql?query={a}&query={b}', { token: mine.tokens.owner })).status).toBe(400);
  });

  it('works under maintenance if it reads, and is refused if it changes something', async () => {
    await service.flags.set('maintenance_mode', true);
    try {
      expect((await request('{ homes { nodes { id } } }')).body.data.homes.nodes).toHaveLength(1);
      const change = 'mutation { createHome(input: {homeName: "x"}) { ... on Refused { code status retryAfterS } } }';
      const { body } = await request(change);
      expect(body.data.createHome).toEqual({ code: 'MAINTENANCE', status: 503, retryAfterS: 60 });
    } finally {
      await service.flags.set('maintenance_mode', false);
    }
  });

  it('with an Idempotency-Key executes each of its changes once', async () => {
    const query =
      'mutation { one: createHome(input: {homeName: "One"}) { ... on Created { id } } two: createHome(input: {homeName: "Two"}) { ... on Created { id } } }';
    const headers = { 'idempotency-key': v4() };
    const first = await request(query, { headers });
    const again = await request(query, { headers });
    expect(again.body).toEqual(first.body);
    expect(first.body.data.one.id).not.toBe(first.body.data.two.id);
    expect([first, again].map((one) => one.headers.get('idempotent-replayed'))).toEqual([null, 'true']);
    const other = await request(
      'mutation { one: createHome(input: {homeName: "Other"}) { ... on Refused { code } } }',
      {
        headers,
      },
    );
    expect(other.body.data.one.code).toBe('IDEMPOTENCY_MISMATCH');
    expect((await request(query, { headers: { 'idempotency-key': 'with blank' } })).status).toBe(400);
  });

  it('of a cookie session changes nothing without its CSRF token, which is audited', async () => {
    const token = await service.member(mine.tenantId, 'admin');
    const opened = await service.call('POST', '/v1/auth/session', { body: { token } });
    const cookie = opened.headers
      .getSetCookie()
      .map((one) => one.split(';')[0])
      .join('; ');
    const change = 'mutation { createHome(input: {homeName: "Forged"}) { __typename ... on Refused { code } } }';
    const forged = await queryGraphql(service, change, { headers: { cookie } });
    expect(forged.body.data.createHome).toEqual({ __typename: 'Refused', code: 'CSRF_FAILED' });
    const read = await queryGraphql(service, '{ me { user { role } } }', { headers: { cookie } });
    expect(read.body.data.me.user.role).toBe('ADMIN');
    const csrf = await service.call('GET', '/v1/auth/csrf', { headers: { cookie } });
    const headers = { cookie, 'x-csrf-token': csrf.body.csrf_token };
    expect((await queryGraphql(service, change, { headers })).body.data.createHome.__typename).toBe('Created');
    await expect
      .poll(async () =>
        (await mine.call('GET', '/audit?action=createHome')).body.entries.map(
          (one: { outcome: string }) => one.outcome,
        ),
      )
      .toContain('CSRF_FAILED');
  });

  it('that changes something returns the result of each change', async () => {
    const { device_id: deviceId } = await mine.register();
    const fields =
      '{ __typename ... on Dispatched { commandId } ... on DryRunRequired { dryRunToken preview { current } } ... on Refused { code detail } }';
    const command =
      'mutation ($id: ID!, $action: String!, $dry: Boolean) { commandDevice(input: {deviceId: $id, action: $action, dryRun: $dry}) ' +
      `${fields} }`;
    const kindOf = async (action: string, dry?: boolean) =>
      (await request(command, { variables: { id: deviceId, action, dry } })).body.data.commandDevice;
    expect(await kindOf('turn_on')).toMatchObject({ __typename: 'Dispatched' });
    expect(await kindOf('turn_on', true)).toMatchObject({ __typename: 'DryRunRequired' });
    expect(await kindOf('revoke')).toMatchObject({ __typename: 'Refused', code: 'RESTRICTED_ACTION' });
    const { dryRunToken } = await kindOf('reboot');
    const confirm = 'mutation ($input: ConfirmCommandInput!) { confirmCommand(input: $input) { __typename } }';
    const { body } = await request(confirm, { variables: { input: { deviceId, dryRunToken } } });
    expect(body.data.confirmCommand.__typename).toBe('Dispatched');
  });

  it('reports an unavailable store, and no internal errors', async () => {
    const broken = { ...service.services.store.records, homes: () => Promise.reject(new Error('secret of the house')) };
    const { homes } = service.services.store.records;
    service.services.store.records.homes = broken.homes;
    try {
      const { body } = await request('{ homes { nodes { id } } }');
      expect(body.errors[0]).toMatchObject({ extensions: { code: 'INTERNAL', status: 500 } });
      expect(JSON.stringify(body)).not.toContain('secret');
    } finally {
      service.services.store.records.homes = homes;
    }
  });
});

describe('the rate', () => {
  it('counts one for a request, for any fields', async () => {
    const small = await startHttpServiceOnDatabase({ rateLimits: { free: 3 } });
    try {
      const { token } = await small.owner();
      const left = async (query: string) => (await queryGraphql(small, query, { token })).headers.get('ratelimit');
      // The registration was charged to the user, who had no tenant yet.
      expect(await left('{ me { hasTenant } }')).toMatch(/r=2;/);
      expect(
        await left('{ a: homes { nodes { id } } b: homes { nodes { id } } devices(first: 200) { nodes { id } } }'),
      ).toMatch(/r=1;/);
      await left('{ nothing }');
      const { status, body, headers } = await queryGraphql(small, '{ me { hasTenant } }', { token });
      expect([status, body.code]).toEqual([429, 'RATE_LIMIT_EXCEEDED']);
      expect(headers.get('retry-after')).toMatch(/^\d+$/);
    } finally {
      await small.close();
    }
  });
});
