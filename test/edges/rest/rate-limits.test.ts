import { v7 } from 'uuid';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { clientAddress } from '../../../src/edges/shared/client-address.ts';
import type { MachineEvent } from '../../../src/machines/definition.ts';
import type { TenantEvent } from '../../../src/machines/tenant-types.ts';
import {
  type CallResult,
  type HttpService,
  type HttpServiceOptions,
  startHttpService,
} from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
afterEach(() => service.close());

const open = async (options: HttpServiceOptions = {}) => {
  service = await startHttpService({ rateLimits: { free: 5, pro: 8, flat: 0 }, ...options });
};

function setTier(tenantId: string, tier: string) {
  const event = { type: 'tier.set', at: service.clock.now(), tier } satisfies TenantEvent & MachineEvent;
  return service.services.actors.send({ kind: 'tenant', id: tenantId }, event);
}

const ratesOf = ({ headers }: CallResult) => [headers.get('ratelimit-policy'), headers.get('ratelimit')];

async function statuses(count: number, request: () => Promise<CallResult>): Promise<number[]> {
  const found: number[] = [];
  for (let n = 0; n < count; n++) found.push((await request()).status);
  return found;
}

const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

describe('a tenant', () => {
  const me = (token: string) => service.call('GET', '/v1/auth/me', { token });

  it('has the requests of its tier per minute, with the remaining number in each response', async () => {
    await open();
    const { token } = await service.owner(); // charged as a user without a tenant
    const first = await me(token);
    expect([first.status, ...ratesOf(first)]).toEqual([200, '"tenant";q=5;w=60', '"tenant";r=4;t=60']);
    service.clock.advance(10_500);
    expect(await statuses(4, () => me(token))).toEqual(times(4, 200));
    const refused = await me(token);
    expect(refused).toMatchObject({
      status: 429,
      body: { code: 'RATE_LIMIT_EXCEEDED', status: 429, instance: '/v1/auth/me', request_id: expect.any(String) },
    });
    expect(refused.headers.get('content-type')).toBe('application/problem+json');
    expect(refused.headers.get('retry-after')).toBe('50');
    expect(ratesOf(refused)).toEqual(['"tenant";q=5;w=60', '"tenant";r=0;t=50']);
  });

  it('waits until the end of its minute, to the millisecond', async () => {
    await open();
    const { token } = await service.owner();
    await statuses(5, () => me(token));
    service.clock.advance(59_999);
    expect((await me(token)).status).toBe(429);
    service.clock.advance(1);
    expect((await me(token)).status).toBe(200);
  });

  it('shares its limit among its users, and with no other tenant', async () => {
    await open();
    const { token, tenantId } = await service.owner();
    const viewer = await service.member(tenantId, 'viewer');
    expect(await statuses(3, () => me(token))).toEqual(times(3, 200));
    expect(await statuses(3, () => me(viewer))).toEqual([200, 200, 429]);
    const other = await service.owner('Another');
    expect((await me(other.token)).status).toBe(200);
  });

  it('is charged under both roots, also for refusals', async () => {
    await open();
    const { token } = await service.owner();
    const requested = [
      await service.call('GET', '/api/v1/homes', { token }),
      await service.call('GET', `/v1/devices/${v7()}`, { token }),
      await service.call('POST', '/v1/homes', { token, body: { wrong: 1 } }),
      await service.call('POST', '/v1/homes', { token, body: '{' }),
      await service.call('POST', '/v1/homes', { token, body: 'x', headers: { 'content-type': 'text/plain' } }),
      await service.call('GET', '/v1/homes', { token }),
    ];
    expect(requested.map(({ status }) => status)).toEqual([200, 404, 400, 400, 415, 429]);
    expect(requested.map((answer) => answer.headers.get('ratelimit'))).toEqual(
      [4, 3, 2, 1, 0, 0].map((left) => `"tenant";r=${left};t=60`),
    );
  });

  it('is charged for a replayed response', async () => {
    await open();
    const { token } = await service.owner();
    const make = () =>
      service.call('POST', '/v1/homes', { token, body: { home_name: 'Lake' }, headers: { 'idempotency-key': 'k' } });
    expect((await make()).status).toBe(201);
    const again = await make();
    expect([again.headers.get('idempotent-replayed'), again.headers.get('ratelimit')]).toEqual([
      'true',
      '"tenant";r=3;t=60',
    ]);
  });

  it('above its limit causes no read, no write and no parsing of its body', async () => {
    await open();
    const { token, tenantId } = await service.owner();
    const homes = async () => (await service.store.records.homes(tenantId, 50)).items.length;
    const make = () => service.call('POST', '/v1/homes', { token, body: { home_name: 'Lake' } });
    await statuses(5, make);
    expect(await homes()).toBe(5);
    const refused = await service.call('POST', '/v1/homes', { token, body: 'x'.repeat(300_000) });
    expect([refused.status, refused.body.code]).toEqual([429, 'RATE_LIMIT_EXCEEDED']);
    expect((await make()).status).toBe(429);
    expect(await homes()).toBe(5);
  });

  it('gets a new tier with the next request', async () => {
    await open();
    const { token, tenantId } = await service.owner();
    expect(await statuses(6, () => me(token))).toEqual([...times(5, 200), 429]);
    await setTier(tenantId, 'pro');
    const next = await me(token);
    expect([next.status, ...ratesOf(next)]).toEqual([200, '"tenant";q=8;w=60', '"tenant";r=2;t=60']);
    await setTier(tenantId, 'free');
    expect((await me(token)).status).toBe(429);
  });

  it('of a tier without limit is never refused and gets no rate headers', async () => {
    await open();
    const { token, tenantId } = await service.owner();
    await setTier(tenantId, 'flat');
    const answers = await Promise.all(times(20, null).map(() => me(token)));
    expect(answers.map(({ status }) => status)).toEqual(times(20, 200));
    expect(ratesOf(answers[0] as CallResult)).toEqual([null, null]);
  });

  it('of a tier that is not configured has the default limit', async () => {
    await open();
    const { token, tenantId } = await service.owner();
    await setTier(tenantId, 'legacy');
    expect(ratesOf(await me(token))[0]).toBe('"tenant";q=5;w=60');
  });

  it('that is not in memory is loaded for its tier', async () => {
    await open();
    const { token, tenantId } = await service.owner();
    await setTier(tenantId, 'pro');
    const { actors } = service.services;
    const { peek } = actors;
    actors.peek = () => undefined;
    expect(ratesOf(await me(token))[0]).toBe('"tenant";q=8;w=60');
    actors.peek = peek;
  });
});

describe('a key or user', () => {
  const me = (token: string) => service.call('GET', '/v1/auth/me', { token });
  const makeKey = async (token: string): Promise<string> =>
    (await service.call('POST', '/v1/auth/api-keys', { token, body: { name: 'k', scopes: ['all'] } })).body.key;

  it('has its own limit within that of the tenant, which others can use up', async () => {
    await open({ rateLimits: { free: 20 } });
    service.services.settings.credentialRateLimits = { free: 4 };
    const { token, tenantId } = await service.owner();
    const [one, other] = [await makeKey(token), await makeKey(token)];
    const colleague = await service.member(tenantId, 'viewer');
    service.clock.advance(60_000);
    expect(ratesOf(await me(one))).toEqual([
      '"tenant";q=20;w=60, "credential";q=4;w=60',
      '"tenant";r=19;t=60, "credential";r=3;t=60',
    ]);
    expect(await statuses(4, () => me(one))).toEqual([...times(3, 200), 429]);
    const refused = await me(one);
    expect(refused.body.detail).toBe(
      'The limit of 4 requests per minute of this key or user is reached. Retry after 60 s.',
    );
    expect(ratesOf(refused)).toEqual(['"credential";q=4;w=60', '"credential";r=0;t=60']);
    for (const credential of [other, token, colleague]) {
      expect(await statuses(5, () => me(credential))).toEqual([...times(4, 200), 429]);
    }
  });

  it('is limited only by its tenant in a tier without such a limit', async () => {
    await open();
    service.services.settings.credentialRateLimits = { pro: 1 };
    const { token } = await service.owner();
    expect(ratesOf(await me(token))[0]).toBe('"tenant";q=5;w=60');
  });

  it('of a tenant without a limit can be limited', async () => {
    await open({ rateLimits: { free: 0 } });
    service.services.settings.credentialRateLimits = { free: 2 };
    const { token } = await service.owner();
    expect(ratesOf(await me(token))[0]).toBe('"credential";q=2;w=60');
    expect(await statuses(2, () => me(token))).toEqual([200, 429]);
  });
});

describe('an address of requests with credentials', () => {
  const me = (token: string) => service.call('GET', '/v1/auth/me', { token });

  it('has one limit for all tenants, and for users without one', async () => {
    await open();
    service.services.settings.addressRateLimit = 4;
    const tokens = [(await service.owner()).token, (await service.owner()).token, await service.token(v7())];
    service.clock.advance(60_000);
    expect(ratesOf(await me(tokens[0] ?? ''))[0]).toBe('"tenant";q=5;w=60, "client";q=4;w=60');
    expect(ratesOf(await me(tokens[2] ?? ''))[0]).toBe('"user";q=5;w=60, "client";q=4;w=60');
    expect(await statuses(3, () => me(tokens[1] ?? ''))).toEqual([...times(2, 200), 429]);
    for (const token of tokens) {
      const refused = await me(token);
      expect(refused.body.detail).toBe(
        'The limit of 4 requests per minute from this address is reached. Retry after 60 s.',
      );
      expect(ratesOf(refused)).toEqual(['"client";q=4;w=60', '"client";r=0;t=60']);
    }
  });
});

describe('a caller without a tenant', () => {
  it('has the requests of the default tier, per user', async () => {
    await open();
    const [one, other] = [await service.token(v7()), await service.token(v7())];
    const me = (token: string) => service.call('GET', '/v1/auth/me', { token });
    expect(ratesOf(await me(one))).toEqual(['"user";q=5;w=60', '"user";r=4;t=60']);
    expect(await statuses(5, () => me(one))).toEqual([...times(4, 200), 429]);
    expect((await me(other)).status).toBe(200);
  });
});

describe('a cookie session', () => {
  it('has its own limit per user, separate from its tenant', async () => {
    await open({ fixedRates: { session: 7 } });
    const { token, userId, tenantId } = await service.owner();
    const authenticate = service.identity.authenticate.bind(service.identity);
    service.identity.authenticate = async (credential, asking) => {
      const who = await authenticate(credential, asking);
      return who.ok && who.value.user?.id === userId ? { ok: true, value: { ...who.value, cookie: true } } : who;
    };
    const first = await service.call('GET', '/v1/auth/me', { token });
    expect(ratesOf(first)).toEqual(['"session";q=7;w=60', '"session";r=6;t=60']);
    expect(await statuses(7, () => service.call('GET', '/v1/auth/me', { token }))).toEqual([...times(6, 200), 429]);
    const colleague = await service.member(tenantId, 'viewer');
    expect(ratesOf(await service.call('GET', '/v1/auth/me', { token: colleague }))).toEqual([
      '"tenant";q=5;w=60',
      '"tenant";r=4;t=60',
    ]);
  });
});

describe('an anonymous request', () => {
  it('is limited per client address, for every path', async () => {
    await open({ fixedRates: { anonymous: 6 } });
    const requested = [
      await service.call('GET', '/version'),
      await service.call('GET', '/v1/status'),
      await service.call('GET', '/v1/devices'),
      await service.call('GET', '/nowhere'),
      await service.call('DELETE', '/v1/homes'),
      await service.call('GET', '/openapi.json'),
      await service.call('GET', '/version'),
      await service.call('GET', '/docs'),
    ];
    expect(requested.map(({ status }) => status)).toEqual([200, 200, 401, 404, 405, 200, 429, 429]);
    expect(requested.map((answer) => ratesOf(answer)[1])).toEqual(
      [5, 4, 3, 2, 1, 0, 0, 0].map((left) => `"address";r=${left};t=60`),
    );
    const { token } = await service.owner();
    expect((await service.call('GET', '/v1/auth/me', { token })).status).toBe(200);
    // An endpoint without authentication is charged to the address, with or without a token.
    expect((await service.call('GET', '/version', { token })).status).toBe(429);
    service.clock.advance(60_000);
    expect((await service.call('GET', '/version')).status).toBe(200);
  });

  it('of health, metrics and keys is not counted', async () => {
    await open({ fixedRates: { anonymous: 1 } });
    for (const path of [
      '/health',
      '/v1/health/live',
      '/health/ready',
      '/metrics',
      '/api/v1/metrics',
      '/.well-known/jwks.json',
      '/.well-known/oauth-protected-resource',
    ]) {
      const requested = [await service.call('GET', path), await service.call('GET', path)];
      expect(requested.map(({ status, ...answer }) => [status, ...ratesOf({ status, ...answer })])).toEqual(
        times(2, [200, null, null]),
      );
    }
    expect((await service.call('GET', '/version')).status).toBe(200);
  });

  it('is attributed by a trusted proxy only, and by the /64 of an IPv6 address', async () => {
    await open({ fixedRates: { anonymous: 1 }, addressOf: clientAddress(['127.0.0.1']) });
    const from = async (forwarded: string) =>
      (await service.call('GET', '/version', { headers: { 'x-forwarded-for': forwarded } })).status;
    expect([await from('192.0.2.1'), await from('6.6.6.6, 192.0.2.1'), await from('192.0.2.2')]).toEqual([
      200, 429, 200,
    ]);
    expect([await from('2001:db8::1'), await from('2001:db8::2'), await from('2001:db8:0:1::1')]).toEqual([
      200, 429, 200,
    ]);
    await service.close();
    await open({ fixedRates: { anonymous: 1 } });
    expect([await from('192.0.2.1'), await from('192.0.2.2')]).toEqual([200, 429]);
  });
});

describe('a failed sign-in', () => {
  const bad = (more: object = {}) => service.call('GET', '/v1/auth/me', { token: `no token ${v7()}`, ...more });

  it('is answered with 401 a limited number of times per minute, and then with 429', async () => {
    await open({ fixedRates: { signIns: 3 } });
    const first = await bad();
    expect([first.status, ...ratesOf(first)]).toEqual([401, '"sign-in";q=3;w=60', '"sign-in";r=2;t=60']);
    expect(await statuses(3, bad)).toEqual([401, 401, 429]);
    const refused = await bad({ token: undefined, headers: { 'x-api-key': 'tk_aaaaaaaa_b' } });
    expect(refused).toMatchObject({ status: 429, body: { code: 'RATE_LIMIT_EXCEEDED' } });
    expect(refused.headers.get('retry-after')).toBe('60');
    service.clock.advance(59_999);
    expect((await bad()).status).toBe(429);
    service.clock.advance(1);
    expect((await bad()).status).toBe(401);
  });

  it('with a token in a body is limited by the same rate', async () => {
    await open({ fixedRates: { signIns: 1 } });
    const session = () => service.call('POST', '/v1/auth/session', { body: { token: 'none' } });
    expect((await session()).status).toBe(401);
    const refused = await session();
    expect([refused.status, ...ratesOf(refused)]).toEqual([429, '"sign-in";q=1;w=60', '"sign-in";r=0;t=60']);
  });

  it('does not affect valid credentials, cached or not', async () => {
    await open({ fixedRates: { signIns: 3 } });
    const { token } = await service.owner();
    expect(await statuses(4, bad)).toEqual([401, 401, 401, 429]);
    expect((await service.call('GET', '/v1/auth/me', { token })).status).toBe(200);
    expect((await service.call('GET', '/v1/auth/me', { token: await service.token(v7()) })).status).toBe(200);
  });

  it('is not verified after ten times the limit, while cached credentials work', async () => {
    await open({ fixedRates: { signIns: 3 } });
    const { token } = await service.owner();
    await service.call('GET', '/v1/auth/me', { token });
    expect(await statuses(40, bad)).toEqual([...times(3, 401), ...times(37, 429)]);
    expect((await service.call('GET', '/v1/auth/me', { token: await service.token(v7()) })).status).toBe(429);
    expect((await service.call('GET', '/v1/auth/me', { token })).status).toBe(200);
  });

  it('with a cookie is not verified then either, while cached sessions work', async () => {
    await open({ fixedRates: { signIns: 3 } });
    const { token } = await service.owner();
    const presented = await service.identity.authenticate(token, { via: 'rest', requestId: v7(), address: null });
    if (!presented.ok || presented.value.token === null) throw new Error('the token is not good');
    const { user, token: opener } = presented.value;
    const holder = { userId: user?.id ?? '', scopes: null, platformAdmin: false, token: opener, csrf: null };
    const { secret } = await service.services.cookieSessions.open(holder);
    const by = async (cookie: string) =>
      (await service.call('GET', '/v1/auth/me', { headers: { cookie: `twinkeep_session=${cookie}` } })).status;
    const unknown = (n: number) => `${n}`.padEnd(43, 'A');
    const looks = vi.spyOn(service.services.cache, 'get');
    for (let n = 0; n < 30; n++) expect(await by(unknown(n))).toBe(n < 3 ? 401 : 429);
    expect(looks).toHaveBeenCalledTimes(30);
    expect(await by(unknown(30))).toBe(429);
    expect(looks).toHaveBeenCalledTimes(30);
    expect(await by(secret)).toBe(200);
  });

  it('counts for its own address only', async () => {
    await open({ fixedRates: { signIns: 1 }, addressOf: clientAddress(['127.0.0.1']) });
    const from = async (address: string) => (await bad({ headers: { 'x-forwarded-for': address } })).status;
    expect([await from('192.0.2.1'), await from('192.0.2.1'), await from('192.0.2.2')]).toEqual([401, 429, 401]);
  });

  it('with a logged-out token counts too', async () => {
    await open({ fixedRates: { signIns: 2 } });
    const { token } = await service.owner();
    await service.call('POST', '/v1/auth/logout', { token });
    expect(await statuses(3, () => service.call('GET', '/v1/auth/me', { token }))).toEqual([401, 401, 429]);
  });
});
