import { decodeJwt } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  Authenticator,
  internalTokenVerifier,
  type Proof,
  type ProofOfUser,
  type Verifier,
} from '../../../src/edges/shared/authenticator.ts';
import { loadAgentTokens } from '../../../src/services/agent-tokens.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
beforeEach(async () => {
  service = await startHttpService();
});
afterEach(() => service.close());

const me = (token?: string) => service.call('GET', '/v1/auth/me', { token });

describe('the user of a token', () => {
  it('is created with role none and without a tenant on first use', async () => {
    const token = await service.token('ada', { email: 'ada@example.com' });
    const { status, body } = await me(token);
    expect(status).toBe(200);
    expect(body).toEqual({
      authenticated: true,
      has_tenant: false,
      user: {
        id: expect.any(String),
        ext_id: 'ada',
        email: 'ada@example.com',
        role: 'none',
        tenant_id: null,
        tenant_slug: null,
      },
      invitations: [],
    });
  });

  it('is the same for every token, created once by concurrent requests', async () => {
    const tokens = await Promise.all([1, 2, 3, 4].map(() => service.token('ada')));
    const answers = await Promise.all(tokens.map(me));
    expect(new Set(answers.map(({ body }) => body.user.id)).size).toBe(1);
    expect(service.store.users.size).toBe(1);
  });

  it('is found without a read of the store if nothing changed', async () => {
    const token = await service.token('ada');
    await me(token);
    const before = service.store.userReads;
    for (let n = 0; n < 5; n++) await me(token);
    expect(service.store.userReads).toBe(before);
  });

  it('has a new role with the next request after the change', async () => {
    const { tenantId } = await service.owner();
    const token = await service.member(tenantId, 'viewer');
    const rename = () => service.call('POST', '/v1/homes', { token, body: { home_name: 'x' } });
    expect((await rename()).status).toBe(403);
    const { id } = (await me(token)).body.user;
    await service.updateUser(id, { role: 'admin' });
    expect((await rename()).status).toBe(201);
  });

  it('has the verified email address of the newest token', async () => {
    await me(await service.token('ada', { email: 'old@example.com' }));
    expect((await me(await service.token('ada', { email: 'new@example.com' }))).body.user.email).toBe(
      'new@example.com',
    );
  });
});

describe('a request', () => {
  it('without a credential is 401 with a challenge', async () => {
    const { status, headers, body } = await me();
    expect([status, body.code]).toEqual([401, 'UNAUTHENTICATED']);
    expect(headers.get('www-authenticate')).toBe('Bearer realm="twinkeep"');
  });

  it.each([
    ['a text', 'Bearer nonsense'],
    ['an empty token', 'Bearer '],
    ['another scheme', 'Basic YWRhOnNlY3JldA=='],
    ['an overlong token', `Bearer ${'x'.repeat(9_000)}`],
    ['a key of a kind we do not know', 'Bearer tk_12345678_abcdefgh'],
  ])('with %s is 401', async (_, authorization) => {
    const { status, headers } = await service.call('GET', '/v1/auth/me', { headers: { authorization } });
    expect(status).toBe(401);
    expect(headers.get('www-authenticate')).toBe('Bearer realm="twinkeep", error="invalid_token"');
  });

  it('with a valid token under no scheme, or another one, is 401', async () => {
    const token = await service.token('ada');
    for (const authorization of [token, `Token ${token}`, `Basic ${token}`]) {
      expect((await service.call('GET', '/v1/auth/me', { headers: { authorization } })).status).toBe(401);
    }
  });

  it('is accepted while its token is valid, and 401 afterwards, although the token was cached', async () => {
    const token = await service.token('ada', { ttlS: 60 });
    expect((await me(token)).status).toBe(200);
    service.clock.advance(89_000);
    expect((await me(token)).status).toBe(200);
    service.clock.advance(2_000);
    expect((await me(token)).status).toBe(401);
  });

  it('without a required caller is answered with any credential', async () => {
    const { status } = await service.call('GET', '/version', { headers: { authorization: 'Bearer nonsense' } });
    expect(status).toBe(200);
  });

  it('is 503 during a store outage at first use, and accepted afterwards', async () => {
    const token = await service.token('ada');
    service.store.failCalls = () => {
      throw new StoreUnavailable('away');
    };
    const away = await me(token);
    expect([away.status, away.body.code, away.headers.get('retry-after')]).toEqual([503, 'STORE_UNAVAILABLE', '2']);
    service.store.failCalls = null;
    expect((await me(token)).status).toBe(200);
  });
});

describe('logging out', () => {
  const logout = (token?: string) => service.call('POST', '/v1/auth/logout', { token });

  it('ends the presented token at once, and no other', async () => {
    const [token, other] = [await service.token('ada'), await service.token('ada')];
    expect((await logout(token)).body).toEqual({ status: 'logged_out' });
    expect((await me(token)).status).toBe(401);
    expect((await me(other)).status).toBe(200);
  });

  it('ends a token that was not used before', async () => {
    const token = await service.token('ada');
    await logout(token);
    expect((await me(token)).status).toBe(401);
  });

  it('succeeds without a token, or with an invalid one', async () => {
    expect((await logout()).status).toBe(200);
    expect((await logout('nonsense')).status).toBe(200);
  });

  it('is executed each time, with any Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'k' };
    for (const token of [await service.token('ada'), await service.token('ada')]) {
      const { body, headers: notified } = await service.call('POST', '/v1/auth/logout', { token, headers });
      expect([body, notified.get('idempotent-replayed')]).toEqual([{ status: 'logged_out' }, null]);
      expect((await me(token)).status).toBe(401);
    }
  });

  it('works during maintenance and in a suspended tenant', async () => {
    const { token, tenantId } = await service.owner();
    await service.flags.set('maintenance_mode', true);
    await service.runtime.actors.send({ kind: 'tenant', id: tenantId }, { type: 'suspend', at: service.clock.now() });
    expect((await me(token)).status).toBe(200);
    expect((await logout(token)).status).toBe(200);
  });
});

describe('another kind of credential', () => {
  const asking = { via: 'rest', requestId: '0195d9a2-7f00-7000-8000-000000000000', address: null };

  /** A credential like an API key: of an existing user, in one tenant, with a capped role. */
  async function withKeys() {
    const { tenantId, userId } = await service.owner();
    const { users, revocations, agentTokens, userSessions, invalidations, audit, log, clock, newId } = service.services;
    const proof: Proof = {
      subject: { userId },
      key: 'abcdefgh',
      ...{ tenantId, roleCap: 'admin', scopes: ['read:devices'], platformAdmin: false, person: false, token: null },
      until: Number.POSITIVE_INFINITY,
    };
    let verified = 0;
    const keys: Verifier = {
      recognises: (credential) => credential.startsWith('tk_'),
      verify: async (credential) => {
        verified++;
        return credential === 'tk_good' ? proof : null;
      },
    };
    const identity = new Authenticator({
      verifiers: [internalTokenVerifier(service.key, clock), keys],
      ...{ users, revocations, agentTokens, userSessions, invalidations, audit, log, clock, newId },
      rateLimiter: service.rateLimiter,
    });
    const request = async () => identity.authenticate('tk_good', asking);
    return { identity, request, userId, tenantId, verified: () => verified };
  }

  it('is an entry in the list of verifiers, and is verified once', async () => {
    const { request, userId, tenantId, verified } = await withKeys();
    await request();
    expect(await request()).toMatchObject({
      ok: true,
      value: {
        principal: { kind: 'user', id: userId, key: 'abcdefgh', via: 'rest', person: false },
        ...{ tenantId, role: 'admin', scopes: ['read:devices'], token: null, requestId: asking.requestId },
      },
    });
    expect(verified()).toBe(1);
  });

  it('ends when its user leaves the tenant, and has the lower role of its user', async () => {
    const { request, userId } = await withKeys();
    await service.updateUser(userId, { role: 'viewer' });
    expect(await request()).toMatchObject({ value: { role: 'viewer' } });
    await service.updateUser(userId, { tenantId: null, role: 'none' });
    expect(await request()).toMatchObject({ ok: false, refusal: { code: 'UNAUTHENTICATED' } });
  });

  it('is verified again when its key has ended', async () => {
    const { request, verified } = await withKeys();
    const { invalidations } = service.services;
    await request();
    invalidations.publish({ about: 'key', prefix: 'others00' });
    await request();
    expect(verified()).toBe(1);
    invalidations.publish({ about: 'key', prefix: 'abcdefgh' });
    await request();
    expect(verified()).toBe(2);
  });
});

describe('a token that is presented at /mcp', () => {
  const requestId = '0195d9a2-7f00-7000-8000-000000000000';
  const request = async (token: string, via = 'mcp') => {
    const answer = await service.identity.authenticate(token, { via, requestId, address: null });
    return answer.ok ? answer.value.principal.person : answer.refusal.code;
  };

  it('is not a person’s from then on, on every edge', async () => {
    const token = await service.token('ada');
    expect(await request(token, 'rest')).toBe(true);
    expect(await request(token)).toBe(false);
    for (const via of ['rest', 'websocket', 'mqtt', 'graphql', 'cli'])
      expect([via, await request(token, via)]).toEqual([via, false]);
    expect(await request(await service.token('ada'), 'rest')).toBe(true);
  });

  it('is marked at first use, before the response', async () => {
    const token = await service.token('ada');
    const { markAgentToken } = service.store.identity;
    let written = false;
    service.store.identity.markAgentToken = async (...given) => {
      await new Promise((resolve) => setImmediate(resolve));
      await markAgentToken(...given);
      written = true;
    };
    expect([await request(token), written]).toEqual([false, true]);
    expect(await request(token, 'rest')).toBe(false);
  });

  it('is not accepted during a store outage', async () => {
    const token = await service.token('ada');
    await request(token, 'rest');
    service.store.failCalls = () => {
      throw new StoreUnavailable('away');
    };
    await expect(request(token)).rejects.toBeInstanceOf(StoreUnavailable);
    service.store.failCalls = null;
    expect(await request(token, 'rest')).toBe(false);
  });

  it('costs one write and no read for any number of requests', async () => {
    const token = await service.token('ada');
    await request(token);
    let calls = 0;
    service.store.failCalls = () => {
      calls += 1;
      throw new StoreUnavailable('asked');
    };
    for (let n = 0; n < 5; n++) expect(await request(token)).toBe(false);
    expect(calls).toBe(0);
  });

  it('is marked in another process, which reads it at its start', async () => {
    const token = await service.token('ada');
    await request(token);
    const { users, revocations, userSessions, invalidations, audit, log, clock, newId, store } = service.services;
    const next = new Authenticator({
      verifiers: [internalTokenVerifier(service.key, clock)],
      ...{ users, revocations, userSessions, invalidations, audit, log, clock, newId },
      rateLimiter: service.rateLimiter,
      agentTokens: await loadAgentTokens(store.identity, clock),
    });
    const answer = await next.authenticate(token, { via: 'rest', requestId, address: null });
    expect(answer).toMatchObject({ ok: true, value: { principal: { person: false } } });
  });

  it('is marked in every encoding of its signature', async () => {
    const token = await service.token('ada');
    // The last character of 64 bytes in base64url has four unused bits.
    const last = token.at(-1) as string;
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const twin =
      token.slice(0, -1) + alphabet[(alphabet.indexOf(last) & 0b110000) | ((alphabet.indexOf(last) + 1) & 0b1111)];
    expect(twin).not.toBe(token);
    await request(twin);
    expect(await request(token, 'rest')).toBe(false);
  });

  it('also makes its cookie session not a person’s, opened before or after', async () => {
    const token = await service.token('ada');
    const proofOf = (): ProofOfUser => ({
      subject: { userId: [...service.store.users.values()][0]?.id ?? '' },
      ...{ scopes: null, platformAdmin: false, person: true, cookie: true, until: service.clock.now() + 1_000 },
      token: { id: tokenId(token), expiresAt: service.clock.now() + 1_000 },
    });
    const recognised = async (via: string) => {
      const answer = await service.identity.resolveCaller(proofOf(), { via, requestId, address: null });
      return answer.ok && answer.value.principal.person;
    };
    await request(token, 'rest');
    expect(await recognised('rest')).toBe(true);
    await request(token);
    expect(await recognised('rest')).toBe(false);
    const other = await service.token('bea');
    expect(await request(other, 'rest')).toBe(true);
  });

  it('is also marked by its cookie session at /mcp', async () => {
    const token = await service.token('ada');
    await request(token, 'rest');
    const proof: ProofOfUser = {
      subject: { userId: [...service.store.users.values()][0]?.id ?? '' },
      ...{ scopes: null, platformAdmin: false, person: true, cookie: true, until: service.clock.now() + 1_000 },
      token: { id: tokenId(token), expiresAt: service.clock.now() + 1_000 },
    };
    await service.identity.resolveCaller(proof, { via: 'mcp', requestId, address: null });
    expect(await request(token, 'rest')).toBe(false);
  });

  it('may use REST operations except those that require a person', async () => {
    const { token } = await service.owner();
    await request(token);
    const call = (method: string, path: string, body?: unknown) => service.call(method, `/v1${path}`, { token, body });
    expect((await call('GET', '/homes')).status).toBe(200);
    expect((await call('POST', '/homes', { home_name: 'x' })).status).toBe(201);
    expect((await call('GET', '/auth/api-keys')).status).toBe(200);
    for (const [path, body] of [
      ['/auth/api-keys', { name: 'x', scopes: ['all'] }],
      ['/tenant/members', { email: 'x@example.com', role: 'user' }],
      ['/auth/cli/approve', { code: 'x'.repeat(43), user_code: 'ABCDEF' }],
    ] as const) {
      const { status, body: refusal } = await call('POST', path, body);
      expect([path, status, refusal.code]).toEqual([path, 403, 'FORBIDDEN']);
    }
  });
});

const tokenId = (token: string): string => decodeJwt(token).jti ?? '';
