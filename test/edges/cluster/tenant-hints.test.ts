import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { v7 } from 'uuid';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { peekBody } from '../../../src/edges/cluster/peek-body.ts';
import { TenantHints } from '../../../src/edges/cluster/tenant-hints.ts';
import { apiKeyVerifier } from '../../../src/edges/shared/api-key-verifier.ts';
import { Authenticator, internalTokenVerifier } from '../../../src/edges/shared/authenticator.ts';
import { MAX_BODY_BYTES, readJson } from '../../../src/edges/shared/body.ts';
import { makeCookies } from '../../../src/edges/shared/cookies.ts';
import { isTicket, redeemTicket } from '../../../src/operations/identity/websocket-tickets.ts';
import { type Certificate, parseCertificate } from '../../../src/protocol/certificate.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { issue, makeAuthority, type TestCertificate } from '../../support/certificates.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
let owner: { token: string; userId: string; tenantId: string };
let operator: string;
const client = '192.0.2.1';

beforeAll(async () => {
  service = await startHttpService({ fixedRates: { signIns: 1 } });
  owner = await service.owner();
  operator = await service.token('operator', { scope: 'platform:admin' });
  await service.call('GET', '/v1/auth/me', { token: operator });
});
afterAll(() => service.close());
afterEach(() => {
  service.store.failCalls = null;
  service.clock.advance(60_000);
});

/** A node that has not seen a credential yet. */
function newNode(): { hints: TenantHints; identity: Authenticator } {
  const { users, revocations, agentTokens, userSessions, invalidations, apiKeys, clock } = service.services;
  const { newId, audit, log } = service.services;
  const identity = new Authenticator({
    verifiers: [apiKeyVerifier(apiKeys), internalTokenVerifier(service.key, clock)],
    ...{ users, revocations, agentTokens, userSessions, invalidations, clock, newId, audit, log },
    rateLimiter: service.rateLimiter,
  });
  const hints = new TenantHints({
    ...{ identity, services: service.services, rateLimiter: service.rateLimiter },
    cookies: makeCookies({ secure: false, clock }),
    addressOf: () => '192.0.2.1',
  });
  return { hints, identity };
}

const requestOf = (url: string, headers: IncomingMessage['headers'] = {}, method = 'GET') =>
  ({ url, headers, method }) as IncomingMessage;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

describe('the hint of a request', () => {
  it('is the tenant of its token, from the second request on without a promise', async () => {
    const { hints } = newNode();
    const request = requestOf('/v1/devices', bearer(owner.token));
    const first = hints.ofRequest(request);
    expect(first).toBeInstanceOf(Promise);
    expect(await first).toBe(owner.tenantId);
    expect(hints.ofRequest(request)).toBe(owner.tenantId);
  });

  it('is the tenant of its API key, in either header', async () => {
    const { hints } = newNode();
    const created = await service.call('POST', '/v1/auth/api-keys', {
      token: owner.token,
      body: { name: 'k', scopes: ['read:devices'] },
    });
    const { key } = created.body;
    expect(await hints.ofRequest(requestOf('/v1/devices', { 'x-api-key': key }))).toBe(owner.tenantId);
    expect(hints.ofRequest(requestOf('/v1/devices', bearer(key)))).toBe(owner.tenantId);
  });

  it('is the tenant of its session cookie', async () => {
    const { hints } = newNode();
    const until = service.clock.now() + 3_600_000;
    const { secret } = await service.services.cookieSessions.open({
      ...{ userId: owner.userId, scopes: null, platformAdmin: false, csrf: null },
      token: { id: 'session', expiresAt: until },
    });
    const cookie = { cookie: `a=b; twinkeep_session=${secret}` };
    await service.services.users.get(owner.userId);
    expect(hints.ofRequest(requestOf('/v1/devices', cookie))).toBe(owner.tenantId);
    expect(await hints.ofRequest(requestOf('/v1/devices', { cookie: 'twinkeep_session=unknown' }))).toBeNull();
  });

  it.each(['/health', '/health/ready', '/v1/health/live?from=balancer', '/api/v1/health', '/metrics'])(
    'for %s is none with any credential: the process that was reached answers for itself',
    async (url) => {
      const { hints } = newNode();
      expect(hints.ofRequest(requestOf(url, bearer(owner.token)))).toBeNull();
    },
  );

  it('for a path that only begins like a health check is the tenant', async () => {
    const { hints } = newNode();
    expect(await hints.ofRequest(requestOf('/v1/healthy', bearer(owner.token)))).toBe(owner.tenantId);
  });

  it.each([
    ['no credential', {}],
    ['another scheme', { authorization: 'Basic YWRhOnNlY3JldA==' }],
    ['an unknown credential', bearer('nonsense')],
    ['an overlong credential', bearer('x'.repeat(9_000))],
  ])('with %s is none', async (_, headers) => {
    expect(await newNode().hints.ofRequest(requestOf('/v1/devices', headers))).toBeNull();
  });

  it('of a user without a tenant is the same for each request: the id of the user', async () => {
    const { hints } = newNode();
    const token = await service.token('lonely');
    await service.call('GET', '/v1/auth/me', { token });
    const hint = await hints.ofRequest(requestOf('/v1/devices', bearer(token)));
    expect(service.store.users.get(hint ?? '')).toMatchObject({ tenantId: null });
    expect(hints.ofRequest(requestOf('/mcp', bearer(token), 'POST'))).toBe(hint);
    expect(hints.ofRequest(requestOf('/sse', bearer(token)))).toBe(hint);
    expect(hints.ofRequest(requestOf('/mcp/messages?session_id=1', bearer(token), 'POST'))).toBe(hint);
  });

  it('creates no user, counts no failure and marks no token', async () => {
    const { hints, identity } = newNode();
    const token = await service.token('never seen');
    const before = service.store.users.size;
    expect(await hints.ofRequest(requestOf('/mcp', bearer(token)))).toBeNull();
    for (let n = 0; n < 30; n += 1) await hints.ofRequest(requestOf('/v1/devices', bearer(`wrong ${n}`)));
    expect(service.store.users.size).toBe(before);
    expect(service.rateLimiter.signInRefusal('192.0.2.1')).toBeNull();
    const caller = await identity.authenticate(token, { via: 'rest', requestId: v7(), address: null });
    expect(caller).toMatchObject({ ok: true, value: { principal: { person: true } } });
  });

  it('is not verified for an address with far too many failed sign-ins; a cached one is found', async () => {
    const { hints } = newNode();
    const request = requestOf('/v1/devices', bearer(owner.token));
    await hints.ofRequest(request);
    while (service.rateLimiter.signInRefusal('192.0.2.1') === null) service.rateLimiter.recordFailedSignIn('192.0.2.1');
    expect(hints.ofRequest(request)).toBe(owner.tenantId);
    expect(newNode().hints.ofRequest(request)).toBeNull();
    expect(newNode().hints.ofCredential(`ws_${'a'.repeat(43)}`, '192.0.2.1')).toBeNull();
  });

  it('is verified again once the token has expired', async () => {
    const { hints } = newNode();
    const token = await service.token('short', { ttlS: 60 });
    await service.call('GET', '/v1/auth/me', { token });
    const request = requestOf('/mcp', bearer(token));
    expect(await hints.ofRequest(request)).not.toBeNull();
    service.clock.advance(91_000);
    expect(await hints.ofRequest(request)).toBeNull();
  });

  it('throws during a store outage', async () => {
    const { hints } = newNode();
    const token = await service.token('during an outage');
    service.store.failCalls = () => {
      throw new StoreUnavailable('away');
    };
    await expect(hints.ofRequest(requestOf('/v1/devices', bearer(token)))).rejects.toBeInstanceOf(StoreUnavailable);
  });
});

describe('a tenant that a platform operator names', () => {
  const named = v7();

  it.each([
    `/v1/admin/tenants/${named}/suspend`,
    `/api/v1/admin/tenants/${named.toUpperCase()}/tier?x=1`,
    `http://example.org/v1/admin/tenants/${named}/resume`,
  ])('in the path %s is the hint with any credential', (url) => {
    expect(newNode().hints.ofRequest(requestOf(url, {}, 'POST'))).toBe(named);
  });

  it.each([`/v1/admin/tenants`, '/v1/admin/tenants/me/suspend', `/x/v1/admin/tenants/${named}/suspend`])(
    'is not in the path %s',
    (url) => {
      expect(newNode().hints.ofRequest(requestOf(url))).toBeNull();
    },
  );

  it('in the query is the hint for operators alone', async () => {
    const { hints } = newNode();
    const url = `/v1/actors?limit=1&tenant_id=${named}`;
    expect(await hints.ofRequest(requestOf(url, bearer(operator)))).toBe(named);
    expect(await hints.ofRequest(requestOf(url, bearer(owner.token)))).toBe(owner.tenantId);
    expect(hints.ofRequest(requestOf('/v1/actors?tenant_id=everything', bearer(operator)))).toBeNull();
  });

  it('in the query of a WebSocket is the hint for operators alone', async () => {
    const { hints } = newNode();
    const url = (token: string) => `/ws/actors?token=${token}&tenant_id=${named}`;
    expect(await hints.ofUpgrade(requestOf(url(operator)))).toBe(named);
    expect(await hints.ofUpgrade(requestOf(url(owner.token)))).toBe(owner.tenantId);
    expect(hints.ofUpgrade(requestOf(`/ws/actors?tenant_id=${named}`))).toBeNull();
  });
});

describe('a ticket', () => {
  it('gives the hint of its user, and stays valid', async () => {
    const { hints } = newNode();
    const { ticket } = (await service.call('POST', '/ws/ticket', { token: owner.token })).body;
    expect(isTicket(ticket)).toBe(true);
    for (let n = 0; n < 2; n += 1)
      expect(await hints.ofUpgrade(requestOf(`/ws/state?token=${ticket}`))).toBe(owner.tenantId);
    expect(await hints.ofCredential(ticket, '192.0.2.1')).toBe(owner.tenantId);
    const caller = await redeemTicket(service.services, ticket, { via: 'websocket', requestId: v7() });
    expect(caller?.tenantId).toBe(owner.tenantId);
    expect(await hints.ofUpgrade(requestOf(`/ws/state?token=${ticket}`))).toBeNull();
  });
});

describe('a certificate', () => {
  it('gives the hint of the tenant whose CA issued it', async () => {
    const { hints } = newNode();
    const { store, clock } = service;
    const other = await service.owner();
    const issuers = [makeAuthority(), makeAuthority()] as const;
    const register = async (authority: TestCertificate, tenantId: string) => {
      const { subjectHash, publicKeyHash } = parseCertificate(authority.der) as Certificate;
      const now = clock.now();
      const code = { tenantId, codeHash: v7(), createdBy: v7(), expiresAt: now + 1 };
      await store.deviceCas.beginVerification(code, 10, now);
      await store.deviceCas.insert(
        {
          ...{ id: v7(), tenantId, name: 'Factory', status: 'active', certificate: authority.pem, fingerprint: 'f' },
          ...{ subjectHash, publicKeyHash, subject: 'CN=Test CA', notAfter: now, registration: null },
          ...{ createdBy: v7(), createdAt: now },
        },
        { codeHash: code.codeHash, now, mostOfSubject: 32 },
      );
    };
    expect(await hints.ofCertificate(issue(issuers[0], 'lamp').der, client)).toBeNull();
    await register(issuers[0], owner.tenantId);
    expect(await hints.ofCertificate(issue(issuers[0], 'lamp').der, client)).toBe(owner.tenantId);
    // Two CAs have the same name.
    await register(issuers[1], other.tenantId);
    expect(await hints.ofCertificate(issue(issuers[0], 'lamp').der, client)).toBe(owner.tenantId);
    expect(await hints.ofCertificate(issue(issuers[1], 'lamp').der, client)).toBe(other.tenantId);
    expect(await hints.ofCertificate(issue(makeAuthority(), 'lamp').der, client)).toBeNull();
    expect(await hints.ofCertificate(Buffer.from('no certificate'), client)).toBeNull();
  });

  it('is not looked up after too many failed sign-ins of the address', async () => {
    const { hints } = newNode();
    const bySubject = vi.spyOn(service.store.deviceCas, 'bySubject');
    const { der } = issue(makeAuthority({ commonName: 'Unknown CA' }), 'lamp');
    // The limit is ten times the one for answers.
    for (let n = 0; n < 12; n += 1) expect(await hints.ofCertificate(der, client)).toBeNull();
    expect(bySubject).toHaveBeenCalledTimes(10);
    await hints.ofCertificate(der, '198.51.100.1');
    expect(bySubject).toHaveBeenCalledTimes(11);
  });
});

describe('the body of a request', () => {
  const named = '0195d9a2-7f00-7000-8000-0000000000aa';

  /** Sends a request to a server that finds its hint and then reads the body as an edge does. */
  async function send(path: string, body: string | string[], headers: Record<string, string> = {}, token = operator) {
    const { hints } = newNode();
    const answer = async (request: IncomingMessage, response: ServerResponse) => {
      const hint = await hints.ofRequest(request);
      const read = await readJson(request);
      response.end(JSON.stringify({ hint, read }));
    };
    const server = createServer((request, response) => void answer(request, response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const parts = typeof body === 'string' ? [body] : body;
    const sent = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, {
      method: 'POST',
      headers: {
        ...(token !== '' && { authorization: `Bearer ${token}` }),
        'content-type': 'application/json',
        ...headers,
      },
      body:
        typeof body === 'string'
          ? body
          : new ReadableStream({
              async pull(controller) {
                const part = parts.shift();
                if (part === undefined) controller.close();
                else controller.enqueue(new TextEncoder().encode(part));
              },
            }),
      duplex: 'half',
    } as RequestInit);
    const result = (await sent.json()) as { hint: string | null; read: { ok: boolean; value: unknown } };
    server.close();
    return result;
  }

  it.each([
    ['a value in a document', '/graphql', { query: `{ overview(tenantId: "${named}") { devices { total } } }` }],
    ['a variable', '/graphql', { query: 'query ($tenantId: ID) { a }', variables: { tenantId: named } }],
    [
      'a variable of any name',
      '/graphql/',
      { query: '{ overview(tenantId: $t) { a } }', variables: { x: 1, t: named } },
    ],
    ['a member of an input', '/graphql?a=b', { query: 'mutation', variables: { input: { tenantId: named } } }],
    ['an argument of a tool', '/mcp', { method: 'tools/call', params: { arguments: { tenant_id: named } } }],
  ])('has the tenant as %s, and is read by the edge afterwards', async (_, path, body) => {
    expect(await send(path, JSON.stringify(body))).toEqual({ hint: named, read: { ok: true, value: body } });
  });

  it.each([
    ['no tenant', '/graphql', { query: '{ devices { edges { node { id } } } }' }],
    ['another id', '/graphql', { query: `{ device(id: "${named}") { tenantId } }` }],
    ['an undefined variable', '/graphql', { query: '{ overview(tenantId: $t) { a } }', variables: {} }],
  ])('with %s gives no hint', async (_, path, body) => {
    expect((await send(path, JSON.stringify(body))).hint).toBeNull();
  });

  it('of a firmware check without a credential has the tenant of the device', async () => {
    const body = { tenant_id: named, signature: 'x' };
    for (const path of ['/v1/firmware/check', '/api/v1/firmware/check'])
      expect(await send(path, JSON.stringify(body), {}, '')).toEqual({ hint: named, read: { ok: true, value: body } });
    expect((await send('/v1/firmware/check', JSON.stringify(body), {}, owner.token)).hint).toBe(owner.tenantId);
    expect((await send('/v1/firmware/release', JSON.stringify(body), {}, '')).hint).toBeNull();
  });

  it('of a firmware check is read as an envelope, up to its size, and no more', async () => {
    const hintOf = async (body: string) => (await send('/v1/firmware/check', body, {}, '')).hint;
    expect(await hintOf(`tenantId:$${'a'.repeat(70_000)}`)).toBeNull();
    expect(await hintOf(`{"query":"tenantId:$${'a'.repeat(10_000)}"}`)).toBeNull();
    expect(await hintOf(JSON.stringify({ tenant_id: named, payload: 'x'.repeat(20_000) }))).toBeNull();
    expect(await hintOf(JSON.stringify({ tenant_id: 1, payload: { tenant_id: named } }))).toBeNull();
    expect(await hintOf(JSON.stringify({ tenant_id: named }))).toBe(named);
  });

  it('with a very long name of a variable gives no hint', async () => {
    const query = `{ overview(tenantId: $${'t'.repeat(70_000)}) { a } }`;
    expect((await send('/graphql', JSON.stringify({ query }))).hint).toBeNull();
  });

  it('of another path, of an MCP session or of another user is not searched', async () => {
    const body = JSON.stringify({ tenant_id: named, tenantId: named });
    expect((await send('/v1/devices', body)).hint).toBeNull();
    expect((await send('/mcp', body, { 'mcp-session-id': 'x' })).hint).not.toBe(named);
    expect((await send('/graphql', body, {}, owner.token)).hint).toBe(owner.tenantId);
  });

  it('in several parts is searched as a whole', async () => {
    const text = JSON.stringify({ query: '{ a }', variables: { padding: 'x'.repeat(100_000), tenantId: named } });
    const parts = text.match(/[\s\S]{1,30000}/g) as string[];
    expect(await send('/graphql', parts)).toEqual({ hint: named, read: { ok: true, value: JSON.parse(text) } });
  });

  it('without content is read as such', async () => {
    expect(await send('/graphql', '')).toEqual({ hint: null, read: { ok: true, value: {} } });
    expect(await send('/graphql', [])).toEqual({ hint: null, read: { ok: true, value: {} } });
  });

  it('that is too large gives no hint, and is refused by the edge', async () => {
    const part = 'x'.repeat(MAX_BODY_BYTES / 4);
    const { hint, read } = await send('/graphql', [`{"tenantId":"${named}","x":"`, part, part, part, part, part, '"}']);
    expect([hint, read.ok]).toEqual([null, false]);
  });

  it('that breaks off gives no hint', async () => {
    const peeked = Promise.withResolvers<string>();
    const server = createServer((request) => void peekBody(request).then(peeked.resolve)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const socket = connect(port, '127.0.0.1');
    socket.write('POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"tenantId":');
    await once(server, 'request');
    socket.destroy();
    expect(await peeked.promise).toBe('');
    server.close();
  });
});
