import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/clock.ts';
import {
  begin,
  INITIALIZE,
  listen,
  mine,
  open,
  type RequestHeaders,
  raw,
  rpc,
  sendRequest,
  service,
  WHOAMI,
  withMcpServices,
} from './mcp-requests.ts';

withMcpServices();

describe('authentication', () => {
  it('is required for every request; a 401 names the resource metadata', async () => {
    await open();
    const url = `${service.url}/.well-known/oauth-protected-resource`;
    const session = await begin();
    for (const authorization of ['', 'Bearer nonsense', 'Basic eDp5']) {
      const { status, headers, body } = await sendRequest(WHOAMI, { ...session, authorization });
      expect([status, body.code]).toEqual([401, 'UNAUTHENTICATED']);
      expect(headers.get('www-authenticate')).toContain(`resource_metadata="${url}"`);
    }
    expect((await listen({ authorization: 'Bearer nonsense' })).status).toBe(401);
    const { body } = await sendRequest(undefined, {}, 'GET', '/.well-known/oauth-protected-resource');
    expect(body).toMatchObject({ resource: `${service.url}/mcp`, bearer_methods_supported: ['header'] });
  });

  it('accepts a key, in either header, with its scopes', async () => {
    await open();
    const { body } = await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes: ['read:homes'] });
    for (const headers of [{ authorization: `Bearer ${body.key}` }, { authorization: '', 'x-api-key': body.key }]) {
      const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''));
      const response = await fetch(`${service.url}/mcp`, {
        ...{ method: 'POST', headers: { ...given, 'content-type': 'application/json' } },
        body: JSON.stringify(rpc('tools/list')),
      });
      const { result } = (await response.json()) as { result: { tools: { name: string }[] } };
      expect(result.tools.map(({ name }) => name)).toEqual(['list_homes', 'list_rooms', 'whoami']);
    }
    const sent = rpc('tools/call', { name: 'list_devices', arguments: {} });
    const { body: answered } = await sendRequest(sent, { authorization: `Bearer ${body.key}` });
    expect(answered.result.content[0].text).toMatch(/^INSUFFICIENT_SCOPE: .*\nNext: /s);
  });

  it('ignores cookies: a signed-in browser has no access', async () => {
    await open();
    const { headers } = await service.call('POST', '/v1/auth/session', { body: { token: mine.tokens.owner } });
    const cookie = headers.getSetCookie()[0]?.split(';')[0] ?? '';
    const response = await fetch(`${service.url}/mcp`, { method: 'POST', headers: { cookie } });
    expect(response.status).toBe(401);
  });

  it('refuses requests with a foreign Host or Origin before anything else', async () => {
    await open();
    const { host, port } = new URL(service.url);
    for (const good of [{}, { host: `localhost:${port}` }, { host: '[::1]' }, { origin: `http://${host}` }]) {
      expect([good, await raw(good)]).toEqual([good, 200]);
    }
    const local = { origin: 'http://localhost:6274' };
    expect(await raw(local)).toBe(200);
    for (const bad of [
      { host: 'evil.example' },
      { host: 'localhost.evil.example' },
      { host: '127.0.0.1@evil.example' },
      { origin: 'https://evil.example' },
      { origin: 'http://127.0.0.1.evil.example' },
      { origin: 'null' },
      { host: 'evil.example', authorization: '' },
    ]) {
      expect([bad, await raw(bad)]).toEqual([bad, 403]);
    }
  });
});

describe('a POST', () => {
  it('without a session is answered completely', async () => {
    await open();
    const { status, headers, body } = await sendRequest(WHOAMI);
    expect([status, body.id, body.result.structuredContent.user.role]).toEqual([200, 7, 'owner']);
    expect(headers.get('mcp-session-id')).toBeNull();
    expect(headers.get('x-api-version')).toBe('1');
    expect((await sendRequest(rpc('tools/list'))).body.result.tools).toHaveLength(29);
    const subscribe = await sendRequest(rpc('resources/subscribe', { uri: `twin://homes/${mine.homeId}` }));
    expect(subscribe.body.error.code).toBe(-32602);
  });

  it('without a session gets its own answer, although others have the same id at the same time', async () => {
    await open();
    const roles = Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? 'owner' : 'viewer'));
    const answers = await Promise.all(
      roles.map((role) => sendRequest(WHOAMI, { authorization: `Bearer ${mine.tokens[role]}` })),
    );
    expect(answers.map(({ body }) => [body.id, body.result.structuredContent.user.role])).toEqual(
      roles.map((role) => [7, role]),
    );
  });

  it('with several messages is answered for each', async () => {
    await open();
    const { body } = await sendRequest([
      rpc('ping', {}, 1),
      rpc('tools/list', {}, 'two'),
      { jsonrpc: '2.0', method: 'x' },
    ]);
    expect(body.map(({ id }: { id: unknown }) => id).sort()).toEqual([1, 'two']);
  });

  it('with a call and its cancellation starts no lasting work', async () => {
    await open();
    const { device_id } = await mine.register({ device_type: 'smart_light' });
    await mine.connect(device_id);
    const steps = [{ id: 'a', device_id, action: 'turn_on' }];
    const call = rpc('tools/call', { name: 'execute_plan', arguments: { name: 'never mind', steps } }, 'plan');
    const back = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'plan' } };
    const { body } = await sendRequest([call, back], await begin());
    expect(body).toBe('');
    // The device never answers: the plan changes only if it is cancelled.
    await eventually(async () => {
      const { plans } = (await mine.call('GET', '/plans')).body;
      return plans.find(({ status }: { status: string }) => /^(cancel|roll)/.test(status));
    });
  });

  it('returns all entries as text in revisions without structured content, and with it those that fit, as JSON', async () => {
    await open();
    for (let n = 0; n < 30; n += 1) await mine.register({ device_type: 'smart_light', name: `Lamp ${n}` });
    const listed = rpc('tools/call', { name: 'list_devices', arguments: {} });
    for (const version of [null, '2025-03-26', '2025-06-18', '2025-11-25']) {
      const { result } = (await sendRequest(listed, version === null ? {} : { 'mcp-protocol-version': version })).body;
      const [text] = result.content.slice(-1).map((one: { text: string }) => one.text);
      const data = text.slice('<twinkeep-data>'.length, -'</twinkeep-data>'.length);
      expect(result.structuredContent.devices).toHaveLength(30);
      if (version === null || version < '2025-06') {
        expect(JSON.parse(data)).toEqual(result.structuredContent);
      } else {
        expect(data.length).toBeLessThanOrEqual(4_096);
        const { devices, next_cursor: cursor } = JSON.parse(data);
        expect(devices).toEqual(result.structuredContent.devices.slice(0, devices.length));
        expect(result.content[1].text).toContain(`call again with limit ${devices.length} and cursor`);
        // The rest, in pages of that size.
        const rest = rpc('tools/call', { name: 'list_devices', arguments: { limit: devices.length, cursor } });
        const next = (await sendRequest(rest, { 'mcp-protocol-version': version })).body.result;
        const [first] = next.structuredContent.devices;
        expect(first).toEqual(result.structuredContent.devices[devices.length]);
        expect(JSON.parse(next.content[1].text.slice('<twinkeep-data>'.length, -'</twinkeep-data>'.length))).toEqual(
          next.structuredContent,
        );
      }
    }
  });

  it('with notifications only is accepted without an answer', async () => {
    await open();
    const { status, body } = await sendRequest({ jsonrpc: '2.0', method: 'notifications/initialized' }, await begin());
    expect([status, body]).toEqual([202, '']);
  });

  it('without a valid message is refused as on other edges', async () => {
    await open();
    const refused = async (body: unknown, headers: RequestHeaders = {}) => {
      const answer = await sendRequest(body, headers);
      return [answer.status, answer.body.code];
    };
    const INVALID = [400, 'VALIDATION_FAILED'];
    expect(await refused('{')).toEqual(INVALID);
    expect(await refused('{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}')).toEqual(INVALID);
    expect(await refused('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\u0000"}}')).toEqual(INVALID);
    expect(await refused({ id: 1, method: 'ping' })).toEqual(INVALID);
    expect(await refused([])).toEqual(INVALID);
    expect(await refused(Array.from({ length: 51 }, (_, id) => rpc('ping', {}, id)))).toEqual(INVALID);
    expect(await refused([rpc('ping', {}, 1), rpc('ping', {}, 1)])).toEqual(INVALID);
    expect(await refused([INITIALIZE, rpc('ping', {}, 2)])).toEqual(INVALID);
    expect(await refused({ ...INITIALIZE, params: {} })).toEqual(INVALID);
    expect(await refused(INITIALIZE, await begin())).toEqual(INVALID);
    expect(await refused(rpc('ping'), { 'mcp-protocol-version': '1999-01-01' })).toEqual(INVALID);
    expect(await refused(`{"x":"${'a'.repeat(256 * 1024)}"}`)).toEqual([413, 'PAYLOAD_TOO_LARGE']);
    expect(await refused('x=1', { 'content-type': 'text/plain' })).toEqual([415, 'UNSUPPORTED_MEDIA_TYPE']);
  });

  it('with invalid params, or an unknown method, is a protocol error', async () => {
    await open();
    expect((await sendRequest(rpc('tools/call', { arguments: {} }))).body.error.code).toBe(-32602);
    expect((await sendRequest(rpc('resources/read', { uri: 1 }))).body.error.code).toBe(-32602);
    expect((await sendRequest(rpc('tools/list', { cursor: 'x' }))).body.error.code).toBe(-32602);
    expect((await sendRequest(rpc('tasks/list'))).body.error.code).toBe(-32601);
  });

  it('to another path or with another method is answered with the valid ones', async () => {
    await open();
    expect((await sendRequest(undefined, {}, 'PUT')).headers.get('allow')).toBe('GET, POST, DELETE, OPTIONS');
    expect((await sendRequest(undefined, {}, 'PUT')).status).toBe(405);
    expect((await sendRequest(undefined, {}, 'OPTIONS')).status).toBe(204);
    expect((await sendRequest(WHOAMI, {}, 'POST', '/mcp/other')).status).toBe(404);
    expect((await sendRequest(WHOAMI, {}, 'POST', '/mcp/')).status).toBe(200);
    expect((await sendRequest(undefined, {}, 'GET', '/mcp/messages')).status).toBe(405);
    const json = { 'mcp-protocol-version': '2025-06-18', accept: 'application/json' };
    expect((await sendRequest(undefined, json, 'GET')).status).toBe(405);
  });

  it('that lists the known actions returns them all as text, in one answer', async () => {
    await open();
    const listed = rpc('tools/call', { name: 'get_manifest_capabilities', arguments: {} });
    const { result } = (await sendRequest(listed, { 'mcp-protocol-version': '2025-11-25' })).body;
    const text = result.content.at(-1).text as string;
    expect(text.length).toBeGreaterThan(4_096);
    expect(JSON.parse(text.slice('<twinkeep-data>'.length, -'</twinkeep-data>'.length))).toEqual(
      result.structuredContent,
    );
  });
});

describe('the stream of HTTP+SSE', () => {
  it.each([
    ['/mcp', { 'mcp-protocol-version': '2025-11-25' }],
    ['/sse', { 'mcp-protocol-version': '2025-11-25' }],
    ['/sse', {}],
    ['/sse', { accept: 'application/json' }],
  ] as const)('is opened at %s with the headers %j', async (path, headers) => {
    await open();
    const stream = await listen(headers, path);
    expect(stream.status).toBe(200);
    await eventually(() => /data: \/mcp\/messages\?session_id=/.test(stream.text));
    stream.close();
    expect((await sendRequest(undefined, {}, 'DELETE', '/sse')).status).toBe(405);
  });
});

describe('the rate limit', () => {
  it('counts each request that reads what is stored or starts a session, and nothing else', async () => {
    await open({ rateLimits: { free: 1_000 } });
    const remaining = async (body: unknown, headers: RequestHeaders = {}) =>
      Number(/r=(\d+)/.exec((await sendRequest(body, headers)).headers.get('ratelimit') ?? '')?.[1] ?? Number.NaN);
    const before = await remaining(WHOAMI);
    const session = await begin();
    for (const method of ['tools/list', 'prompts/list', 'ping']) {
      expect([method, await remaining(rpc(method), session)]).toEqual([method, Number.NaN]);
    }
    const uri = `twin://homes/${mine.homeId}`;
    const completed = { ref: { type: 'ref/prompt', name: 'check_house' }, argument: { name: 'home_id', value: '' } };
    const counted = [
      rpc('resources/read', { uri }),
      rpc('resources/list'),
      rpc('resources/subscribe', { uri }),
      rpc('completion/complete', completed),
      WHOAMI,
    ];
    // initialize was the first.
    const left: number[] = [];
    for (const body of counted) left.push(await remaining(body, session));
    expect(left).toEqual([2, 3, 4, 5, 6].map((used) => before - used));
    expect(
      await remaining(
        [
          { ...WHOAMI, id: 1 },
          { ...WHOAMI, id: 2 },
        ],
        session,
      ),
    ).toBe(before - 8);
  });

  it('refuses a tool with a result that contains the retry time', async () => {
    // The setup of the tenant takes ten requests.
    await open({ rateLimits: { free: 12 } });
    let last = await sendRequest(WHOAMI);
    for (let n = 0; n < 12; n++) last = await sendRequest(WHOAMI);
    expect(last.status).toBe(200);
    expect(last.body.result).toMatchObject({
      isError: true,
      _meta: { 'twinkeep/refusal': { code: 'RATE_LIMIT_EXCEEDED' } },
    });
    expect(last.body.result.content[0].text).toContain('Retry after');
    const read = await sendRequest(rpc('resources/read', { uri: `twin://homes/${mine.homeId}` }));
    expect(read.body.error.data.code).toBe('RATE_LIMIT_EXCEEDED');
    expect((await sendRequest(rpc('resources/list'))).body.error.data.code).toBe('RATE_LIMIT_EXCEEDED');
    const refused = await sendRequest(INITIALIZE);
    expect([refused.status, refused.body.code]).toEqual([429, 'RATE_LIMIT_EXCEEDED']);
    expect(refused.headers.get('mcp-session-id')).toBeNull();
    expect((await sendRequest(rpc('tools/list'))).body.result.tools).toHaveLength(29);
  });

  it('counts anonymous requests by address, and failed sign-ins too', async () => {
    await open({ fixedRates: { anonymous: 2, signIns: 2 } });
    const statuses: number[] = [];
    for (let n = 0; n < 3; n++) {
      statuses.push((await fetch(`${service.url}/mcp`, { method: 'POST' })).status);
      statuses.push((await sendRequest(WHOAMI, { authorization: 'Bearer nonsense' })).status);
    }
    expect(statuses).toEqual([401, 401, 401, 401, 429, 429]);
  });
});

describe('a token', () => {
  it('presented here is not a person’s token from then on', async () => {
    await open();
    await sendRequest(rpc('ping'));
    const { status, body } = await mine.call('POST', '/auth/api-keys', { name: 'mine', scopes: ['all'] });
    expect([status, body.code]).toEqual([403, 'FORBIDDEN']);
  });
});

describe('shutdown', () => {
  it('notifies clients, completes running calls, and refuses new ones', async () => {
    await open({});
    const { device_id } = await mine.register();
    await mine.connect(device_id);
    const stream = await listen(await begin());
    const args = { steps: [{ id: 'on', device_id, action: 'turn_on' }] };
    const params = { name: 'execute_plan', arguments: args, _meta: { progressToken: 1 } };
    const running = sendRequest(rpc('tools/call', params), await begin());
    await eventually(async () => (await mine.call('GET', '/plans')).body.plans.length === 1);
    await service.mcp.close();
    expect((await running).body.result?.structuredContent.plan.status ?? (await running).body).toMatch(
      /pending|running/,
    );
    await eventually(() => stream.ended);
    expect(stream.text).toContain('shutting down');
    const late = await sendRequest(WHOAMI);
    expect([late.status, late.body.code]).toEqual([503, 'OVERLOADED']);
  });
});
