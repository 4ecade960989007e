import { decodeProtectedHeader } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Browser, browserAt } from '../support/browser.ts';
import { CLIENT, type IdentityProvider, identityProvider, OPERATORS } from '../support/identity-provider.ts';
import { startService, type TestService } from '../support/service.ts';

const AUDIENCE = 'https://api.twinkeep.example';
let idp: IdentityProvider;
let at: TestService;
const callback = () => `${at.url}/v1/auth/callback`;

beforeAll(async () => {
  vi.spyOn(console, 'info').mockImplementation(() => {});
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  idp = await identityProvider();
  // The service starts while its provider is unreachable.
  at = await startService({
    OIDC_ISSUER: idp.issuer,
    OIDC_AUDIENCE: AUDIENCE,
    OIDC_CLIENT_ID: CLIENT.id,
    OIDC_CLIENT_SECRET: CLIENT.secret,
    OIDC_PLATFORM_CLAIM: `${OPERATORS.name}:${OPERATORS.value}`,
  });
});
afterAll(async () => {
  await at?.stop();
  await idp?.close();
});

describe('while the provider is unreachable', () => {
  it('its tokens get 503 instead of 401, internal tokens are accepted, and the sign-in page explains why', async () => {
    const now = Math.floor(at.clock.now() / 1000);
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const claims = { iss: idp.issuer, aud: AUDIENCE, sub: 'ada', exp: now + 300 };
    const token = `${part({ alg: 'RS256', typ: 'at+jwt', kid: 'first' })}.${part(claims)}.AAAA`;
    const unknown = await at.api(token).get('/v1/auth/me');
    expect([unknown.status, unknown.body.code, unknown.headers.get('retry-after')]).toEqual([503, 'OVERLOADED', '5']);
    const session = await at.api().post('/v1/auth/session', { token });
    expect([session.status, session.body.code]).toEqual([503, 'OVERLOADED']);
    expect((await at.api(await at.token('me')).get('/v1/auth/me')).status).toBe(200);
    const login = await at.api().get('/v1/auth/login', { accept: 'text/html' });
    expect([login.status, login.headers.get('retry-after')]).toEqual([503, '5']);
    expect(login.body).toContain('The identity provider does not answer');
  });
});

describe('with the provider', () => {
  beforeAll(async () => {
    await idp.configure(callback());
    at.clock.advance(2_000);
  });

  describe('an access token of the provider', () => {
    it('is an `at+jwt` and creates a user for its subject on first use', async () => {
      const token = await idp.accessToken('grace', AUDIENCE);
      expect(decodeProtectedHeader(token).typ).toBe('at+jwt');
      const { status, body } = await at.api(token).get('/v1/auth/me');
      expect(status).toBe(200);
      expect(body).toMatchObject({ has_tenant: false, user: { ext_id: 'grace', role: 'none', tenant_id: null } });
      const again = await at.api(await idp.accessToken('grace', AUDIENCE)).get('/v1/auth/me');
      expect(again.body.user.id).toBe(body.user.id);
    });

    it('is a different user than an internal token with the same subject', async () => {
      const external = await at.api(await idp.accessToken('grace', AUDIENCE)).get('/v1/auth/me');
      const internal = await at.api(await at.token('grace')).get('/v1/auth/me');
      expect(internal.body.user.id).not.toBe(external.body.user.id);
    });

    it('can register a tenant and use it', async () => {
      const api = at.api(await idp.accessToken('owen', AUDIENCE));
      expect((await api.post('/v1/tenant/register', { tenant_name: 'Owen' })).status).toBe(201);
      expect((await api.post('/v1/homes', { home_name: 'Hut', timezone: 'Europe/Rome' })).status).toBe(201);
      expect((await api.get('/v1/auth/me')).body).toMatchObject({ has_tenant: true, user: { role: 'owner' } });
    });

    it('for another audience gets 401', async () => {
      const token = await idp.accessToken('grace', 'https://elsewhere.example');
      const { status, headers } = await at.api(token).get('/v1/auth/me');
      expect([status, headers.get('www-authenticate')]).toEqual([
        401,
        'Bearer realm="twinkeep", error="invalid_token"',
      ]);
    });

    it('expires after an hour and 30 s of leeway', async () => {
      const token = await idp.accessToken('grace', AUDIENCE);
      expect((await at.api(token).get('/v1/auth/me')).status).toBe(200);
      at.clock.advance(3_620_000);
      expect((await at.api(token).get('/v1/auth/me')).status).toBe(200);
      at.clock.advance(15_000);
      expect((await at.api(token).get('/v1/auth/me')).status).toBe(401);
      at.clock.set(Date.now());
    });

    it('that a program requested for itself is not a person’s', async () => {
      const token = await idp.clientToken(AUDIENCE);
      const program = at.api(token);
      expect((await program.post('/v1/tenant/register', { tenant_name: 'Machines' })).status).toBe(201);
      const key = await program.post('/v1/auth/api-keys', { name: 'x' });
      expect([key.status, key.body.code]).toEqual([403, 'FORBIDDEN']);
      const session = await at.api().post('/v1/auth/session', { token });
      expect([session.status, session.body.code]).toEqual([403, 'FORBIDDEN']);
    });

    it('is ended by logging out, without affecting other tokens of the user', async () => {
      const [one, other] = [await idp.accessToken('grace', AUDIENCE), await idp.accessToken('grace', AUDIENCE)];
      expect((await at.api(one).post('/v1/auth/logout')).status).toBe(200);
      expect((await at.api(one).get('/v1/auth/me')).status).toBe(401);
      expect((await at.api(other).get('/v1/auth/me')).status).toBe(200);
    });

    it('is not a platform operator by requesting that scope, only by the claim', async () => {
      const asking = { via: 'rest', requestId: 'x', address: null };
      const admin = async (login: string) => {
        const token = await idp.accessToken(login, AUDIENCE, 'openid platform:admin read:devices');
        const caller = await at.services.authenticate(token, asking);
        return caller.ok && caller.value;
      };
      idp.accounts.set('olga', { groups: ['people', OPERATORS.value] });
      expect(await admin('mallory')).toMatchObject({ platformAdmin: false, scopes: ['read:devices'] });
      expect(await admin('olga')).toMatchObject({ platformAdmin: true });
    });
  });

  describe('signing in with a browser', () => {
    let browser: Browser;
    const begin = async (query = '') => {
      browser = browserAt(at.url);
      const { status, headers } = await browser.request('GET', `/v1/auth/login${query}`);
      expect(status).toBe(303);
      return headers.get('location') ?? '';
    };
    const signIn = async (login: string, query = '') => {
      const back = await idp.signIn(await begin(query), login);
      return browser.request('GET', back);
    };
    const me = () => browser.request('GET', '/v1/auth/me');
    afterEach(() => idp.accounts.clear());

    it('requests a code with PKCE, state and nonce, which are kept in a sealed cookie', async () => {
      const url = new URL(await begin());
      expect(Object.fromEntries(url.searchParams)).toMatchObject({
        ...{ client_id: CLIENT.id, redirect_uri: callback(), response_type: 'code', code_challenge_method: 'S256' },
        scope: expect.stringContaining('openid'),
      });
      expect(browser.lastSet).toEqual([
        expect.stringMatching(/^twinkeep_login=[^;]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=(600|59\d)$/),
      ]);
      const cookie = browser.cookies.get('twinkeep_login') ?? '';
      for (const name of ['state', 'nonce']) expect(cookie).not.toContain(url.searchParams.get(name));
    });

    it('ends in a session of the user with the email address that the provider verified', async () => {
      idp.accounts.set('ada', { email: 'ada@example.com', email_verified: true });
      const { status, headers } = await signIn('ada');
      expect([status, headers.get('location')]).toEqual([303, '/console']);
      expect([...browser.cookies.keys()]).toEqual(['twinkeep_session']);
      expect((await me()).body.user).toMatchObject({ ext_id: 'ada', email: 'ada@example.com', role: 'none' });
    });

    it('is listed with the address of the browser', async () => {
      await signIn('ada');
      const { body } = await browser.request('GET', '/v1/auth/sessions');
      const current = body.sessions.find((one: { current: boolean }) => one.current);
      expect(current).toMatchObject({ kind: 'browser', address: '127.0.0.1' });
    });

    it('is in the audit log', async () => {
      const api = at.api(await idp.accessToken('alma', AUDIENCE));
      await api.post('/v1/tenant/register', { tenant_name: 'Alma' });
      await signIn('alma');
      const { id } = (await me()).body.user;
      const { body } = await api.get('/v1/audit?action=openCookieSession');
      const action = { by: id, via: 'rest', action: 'openCookieSession', subject: `user:${id}`, outcome: 'done' };
      expect(body.entries).toEqual([expect.objectContaining(action)]);
    });

    it('is the same user as that of the access token', async () => {
      await signIn('ada');
      const byToken = await at.api(await idp.accessToken('ada', AUDIENCE)).get('/v1/auth/me');
      expect((await me()).body.user.id).toBe(byToken.body.user.id);
    });

    it('ignores an email address that the provider did not verify', async () => {
      idp.accounts.set('eve', { email: 'ada@example.com', email_verified: false });
      await signIn('eve');
      expect((await me()).body.user.email).toBeNull();
    });

    it('makes a platform operator by the claim', async () => {
      idp.accounts.set('olga', { groups: [OPERATORS.value] });
      await signIn('olga');
      const session = await at.services.cookieSessions.find(browser.cookies.get('twinkeep_session') ?? '');
      expect(session).toMatchObject({ platformAdmin: true });
    });

    it('has all rights of its user, whatever scope the provider writes into ID tokens', async () => {
      idp.accounts.set('olga', { groups: [OPERATORS.value], scope: 'openid email' });
      await signIn('olga');
      const session = await at.services.cookieSessions.find(browser.cookies.get('twinkeep_session') ?? '');
      expect(session).toMatchObject({ platformAdmin: true, scopes: null });
      expect((await browser.request('GET', '/v1/admin/tenants')).status).toBe(200);
    });

    it('returns to the page that the user came from', async () => {
      const { headers } = await signIn('ada', '?return_to=%2Fv1%2Fauth%2Fcli%3Fcode%3Da');
      expect(headers.get('location')).toBe('/v1/auth/cli?code=a');
    });

    it.each(['https://evil.example/', '//evil.example', '/\\evil.example', 'javascript:alert(1)'])(
      'does not redirect elsewhere: %s is 400',
      async (to) => {
        const { status } = await browserAt(at.url).request('GET', `/v1/auth/login?return_to=${encodeURIComponent(to)}`);
        expect(status).toBe(400);
      },
    );

    it('ends with its token, and by logging out', async () => {
      await signIn('ada');
      const { csrf_token } = (await browser.request('GET', '/v1/auth/csrf')).body;
      const headers = { 'x-csrf-token': csrf_token };
      expect((await browser.request('POST', '/v1/auth/logout', { headers })).status).toBe(200);
      expect((await me()).status).toBe(401);
      await signIn('ada');
      at.clock.advance(3_601_000);
      expect((await me()).status).toBe(401);
      at.clock.set(Date.now());
    });

    const refusedFor = async (change: (back: URL) => void) => {
      const back = new URL(await idp.signIn(await begin(), 'ada'));
      change(back);
      const answer = await browser.request('GET', back.href);
      expect(browser.cookies.has('twinkeep_session')).toBe(false);
      return [answer.status, answer.body.code];
    };

    it.each<[string, (back: URL) => void]>([
      ['another state', (back) => back.searchParams.set('state', 'x')],
      ['no state', (back) => back.searchParams.delete('state')],
      ['another code', (back) => back.searchParams.set('code', 'x')],
      ['another issuer', (back) => back.searchParams.set('iss', 'https://evil.example')],
      ['no cookie: begun in another browser', () => browser.cookies.clear()],
      [
        'a cookie of our making for something else',
        () => browser.cookies.set('twinkeep_login', at.services.seal('{}', { purpose: 'provider sign-ins', aad: 'x' })),
      ],
      ['a cookie of another sign-in', () => browser.cookies.set('twinkeep_login', other)],
      ['ten minutes gone by', () => at.clock.advance(600_000)],
    ])('is refused with %s', async (_, change) => {
      expect(await refusedFor(change)).toEqual([403, 'FORBIDDEN']);
      at.clock.set(Date.now());
    });
    let other = '';
    beforeAll(async () => {
      await begin();
      other = browser.cookies.get('twinkeep_login') ?? '';
    });

    it('accepts each code once', async () => {
      const back = await idp.signIn(await begin(), 'ada');
      const kept = new Map(browser.cookies);
      expect((await browser.request('GET', back)).status).toBe(303);
      browser.cookies = kept;
      expect((await browser.request('GET', back)).status).toBe(403);
    });

    it('explains that the user cancelled', async () => {
      const state = new URL(await begin()).searchParams.get('state');
      const query = new URLSearchParams({ error: 'access_denied', state: state ?? '', iss: idp.issuer });
      const { status, body } = await browser.request('GET', `/v1/auth/callback?${query}`, {
        headers: { accept: 'text/html' },
      });
      expect(status).toBe(403);
      expect(body).toContain('The sign-in was cancelled.');
    });
  });

  it('works with a client without a secret, and with an email address in the ID token', async () => {
    const { OIDC_CLIENT_SECRET: _, ...env } = {
      ...{ OIDC_ISSUER: idp.issuer, OIDC_AUDIENCE: AUDIENCE, OIDC_CLIENT_ID: CLIENT.id, OIDC_CLIENT_SECRET: '' },
      PUBLIC_URL: 'http://127.0.0.1/under',
    };
    const second = await startService(env);
    try {
      await idp.configure('http://127.0.0.1/under/v1/auth/callback', { emailInIdToken: true, clientSecret: false });
      idp.accounts.set('ada', { email: 'ada@example.com', email_verified: true });
      const browser = browserAt(second.url);
      const begun = await browser.request('GET', '/v1/auth/login');
      const back = new URL(await idp.signIn(begun.headers.get('location') ?? '', 'ada'));
      expect(back.origin + back.pathname).toBe('http://127.0.0.1/under/v1/auth/callback');
      const ended = await browser.request('GET', `/v1/auth/callback${back.search}`);
      expect([ended.status, ended.headers.get('location')]).toEqual([303, '/under/console']);
      expect((await browser.request('GET', '/v1/auth/me')).body.user.email).toBe('ada@example.com');
    } finally {
      await second.stop();
    }
  });
});
