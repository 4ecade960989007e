import { hash, randomBytes } from 'node:crypto';
import { decodeJwt } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { userCodeOf } from '../../../../src/services/handshakes.ts';
import { type Browser, browserAt } from '../../../support/browser.ts';
import { type HttpService, startHttpService } from '../../../support/http-service.ts';
import type { MemoryStore } from '../../../support/memory-store.ts';

const random = () => randomBytes(32).toString('base64url');

let service: HttpService<MemoryStore>;
let browser: Browser;
let [code, verifier] = ['', ''];
beforeEach(async () => {
  service = await startHttpService();
  browser = browserAt(service.url);
  code = random();
  verifier = random();
});
afterEach(() => service.close());

const page = (more = '', headers: Record<string, string> = {}) =>
  browser.request('GET', `/v1/auth/cli?code=${code}&challenge=${hash('sha256', verifier, 'base64url')}${more}`, {
    headers,
  });
const poll = (presented = verifier) =>
  service.call('GET', `/v1/auth/handshake/${code}`, { headers: { 'x-handshake-verifier': presented } });
const signIn = (token: string) => browser.request('POST', '/v1/auth/session', { body: { token } });
const approve = async (user_code = userCodeOf(code)) => {
  const { csrf_token } = (await browser.request('GET', '/v1/auth/csrf')).body;
  const headers = { 'x-csrf-token': csrf_token };
  return browser.request('POST', '/v1/auth/cli/approve', { body: { code, user_code }, headers });
};

describe('the CLI handshake', () => {
  it('goes from 404 to pending, to a token of the user once, to 410', async () => {
    const { token, userId } = await service.owner();
    expect((await poll()).status).toBe(404);
    expect((await page()).status).toBe(200);
    expect((await poll()).body).toEqual({ status: 'pending' });
    await signIn(token);
    expect(await approve()).toMatchObject({ status: 200, body: { status: 'approved' } });
    const { status, body } = await poll();
    expect([status, body]).toEqual([200, { status: 'approved', access_token: expect.any(String), expires_in: 3_600 }]);
    const me = await service.call('GET', '/v1/auth/me', { token: body.access_token });
    expect(me.body.user).toMatchObject({ id: userId, role: 'owner' });
    expect((await poll()).body.code).toBe('GONE');
  });

  it('of others, in any number, ends no sign-in link', async () => {
    await service.close();
    service = await startHttpService({ maxCacheEntries: 5 });
    browser = browserAt(service.url);
    const { url } = (await service.call('POST', '/v1/auth/link', { token: (await service.owner()).token, body: {} }))
      .body;
    for (let n = 0; n < 10; n += 1) {
      const opened = await fetch(`${service.url}/v1/auth/cli?code=${random()}&challenge=${random()}`);
      expect(opened.status).toBe(200);
    }
    expect((await signIn(url.split('#sign-in=')[1])).status).toBe(204);
    expect(service.services.cache.sizes().cache_entries).toBeLessThan(10);
  });

  it('returns a token that expires after an hour', async () => {
    await page();
    await signIn(await service.token('ada', { ttlS: 86_400 }));
    await approve();
    const { access_token: token } = (await poll()).body;
    service.clock.advance(3_629_000);
    expect((await service.call('GET', '/v1/auth/me', { token })).status).toBe(200);
    service.clock.advance(2_000);
    expect((await service.call('GET', '/v1/auth/me', { token })).status).toBe(401);
  });

  it('returns a token for the user of another issuer, not for one of the same name', async () => {
    const iss = 'https://id.example';
    const user = await service.services.users.findOrCreate({
      ...{ id: service.services.newId(), iss, sub: 'ada', email: null, emailVerified: false },
      createdAt: service.clock.now(),
    });
    await service.token('ada');
    await page();
    const holder = { userId: user.id, scopes: null, platformAdmin: false, csrf: null };
    const token = { id: 'x', expiresAt: service.clock.now() + 60_000, signedInAt: service.clock.now() };
    const { secret } = await service.services.cookieSessions.open({ ...holder, token });
    browser.cookies.set('twinkeep_session', secret);
    await approve();
    const made = (await poll()).body.access_token;
    expect((await service.call('GET', '/v1/auth/me', { token: made })).body.user).toMatchObject({
      id: user.id,
      ext_id: 'ada',
    });
  });

  it('grants no more than the scopes of the approver, and never platform administration', async () => {
    const { token, tenantId, userId } = await service.owner();
    expect((await service.call('GET', '/v1/auth/me', { token })).body.user).toMatchObject({
      id: userId,
      tenant_id: tenantId,
    });
    const { sub } = [...service.store.users.values()].find(({ id }) => id === userId) ?? { sub: '' };
    await page();
    await signIn(await service.token(sub, { scope: 'read:homes platform:admin' }));
    await approve();
    const made = (await poll()).body.access_token;
    expect((await service.call('GET', '/v1/homes', { token: made })).status).toBe(200);
    expect((await service.call('GET', '/v1/devices', { token: made })).body.code).toBe('INSUFFICIENT_SCOPE');
    const caller = await service.identity.authenticate(made, { via: 'rest', requestId: 'x', address: null });
    expect(caller).toMatchObject({ value: { platformAdmin: false, principal: { person: true } } });
  });

  it('cannot be approved without a sign-in, or without the CSRF token', async () => {
    await page();
    const body = { code, user_code: userCodeOf(code) };
    expect((await approve()).status).toBe(401);
    await signIn(await service.token('ada'));
    expect((await browser.request('POST', '/v1/auth/cli/approve', { body })).body.code).toBe('CSRF_FAILED');
    expect((await poll()).body).toEqual({ status: 'pending' });
  });

  it('can be approved with a bearer token, which other sites cannot send', async () => {
    await page();
    const token = await service.token('ada');
    const body = { code, user_code: userCodeOf(code) };
    expect((await service.call('POST', '/v1/auth/cli/approve', { token, body })).status).toBe(200);
  });

  it('returns a token with the time of the sign-in that approved it', async () => {
    const token = await service.token('ada', { ttlS: 86_400 });
    service.clock.advance(3_600_000);
    await page();
    const body = { code, user_code: userCodeOf(code) };
    expect((await service.call('POST', '/v1/auth/cli/approve', { token, body })).status).toBe(200);
    const { auth_time, iat } = decodeJwt((await poll()).body.access_token);
    expect(auth_time).toBe(decodeJwt(token).auth_time);
    expect(iat).toBe(Number(auth_time) + 3_600);
  });

  describe('with a token that another token created', () => {
    const refusal = (answer: { status: number; body: { code: string; detail: string } }) =>
      expect([answer.status, answer.body.code, answer.body.detail]).toEqual([
        403,
        'FORBIDDEN',
        expect.stringContaining('command-line sign-in'),
      ]);
    /** A token of a command line, and an open handshake after it. */
    async function successor(): Promise<string> {
      await page();
      await signIn((await service.owner()).token);
      await approve();
      const { access_token } = (await poll()).body;
      [code, verifier] = [random(), random()];
      browser = browserAt(service.url);
      await page();
      return access_token;
    }

    it('cannot be approved by that token', async () => {
      const token = await successor();
      const body = { code, user_code: userCodeOf(code) };
      refusal(await service.call('POST', '/v1/auth/cli/approve', { token, body }));
      expect((await poll()).body).toEqual({ status: 'pending' });
    });

    it('cannot be approved by a cookie session that was opened with it', async () => {
      const token = await successor();
      expect((await signIn(token)).status).toBe(204);
      refusal(await approve());
      expect((await poll()).body).toEqual({ status: 'pending' });
    });

    it('cannot be approved by a browser that a sign-in link of it signed in', async () => {
      const token = await successor();
      const { url } = (await service.call('POST', '/v1/auth/link', { token, body: {} })).body;
      expect((await signIn(url.split('#sign-in=')[1])).status).toBe(204);
      refusal(await approve());
      expect((await poll()).body).toEqual({ status: 'pending' });
    });

    it('can be approved by a token of the same user’s own sign-in', async () => {
      await successor();
      await signIn(await service.token('ada'));
      expect((await approve()).status).toBe(200);
    });
  });

  describe('12 hours after the sign-in that approves it', () => {
    const HOURS = 3_600_000;
    const approveWith = (token: string) =>
      service.call('POST', '/v1/auth/cli/approve', { token, body: { code, user_code: userCodeOf(code) } });

    it('cannot be approved, although the token is still valid', async () => {
      const token = await service.token('ada', { ttlS: 86_400 });
      service.clock.advance(12 * HOURS);
      await page();
      expect(await approveWith(token)).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
      expect((await service.call('GET', '/v1/auth/me', { token })).status).toBe(200);
    });

    it('ends the token that was created before', async () => {
      const token = await service.token('ada', { ttlS: 86_400 });
      service.clock.advance(11.5 * HOURS);
      await page();
      expect((await approveWith(token)).status).toBe(200);
      const { access_token, expires_in } = (await poll()).body;
      expect(expires_in).toBeGreaterThan(1_795);
      expect(expires_in).toBeLessThanOrEqual(1_800);
      // The tolerance for clock differences is 30 s.
      service.clock.advance(0.5 * HOURS + 31_000);
      expect((await service.call('GET', '/v1/auth/me', { token: access_token })).status).toBe(401);
    });

    it('returns no token if it was approved before and fetched afterwards', async () => {
      const token = await service.token('ada', { ttlS: 86_400 });
      service.clock.advance(12 * HOURS - 5_000);
      await page();
      expect((await approveWith(token)).status).toBe(200);
      service.clock.advance(5_000);
      expect(await poll()).toMatchObject({ status: 410, body: { code: 'GONE' } });
    });
  });

  it('is approved by a person, never by an API key', async () => {
    await page();
    const { token } = await service.owner();
    const { key } = (await service.call('POST', '/v1/auth/api-keys', { token, body: { name: 'x', scopes: ['all'] } }))
      .body;
    const body = { code, user_code: userCodeOf(code) };
    expect((await service.call('POST', '/v1/auth/cli/approve', { token: key, body })).body.code).toBe('FORBIDDEN');
    expect((await poll()).body).toEqual({ status: 'pending' });
  });

  it('ends with the fifth wrong user code', async () => {
    await page();
    await signIn(await service.token('ada'));
    for (let n = 0; n < 5; n++) expect((await approve('AAAAAA')).body.code).toBe('FORBIDDEN');
    expect((await approve()).body.code).toBe('GONE');
    expect((await poll()).body.code).toBe('GONE');
  });

  it('is 403 with a wrong or missing verifier, and ignores one in the query', async () => {
    await page();
    expect((await poll(random())).body.code).toBe('FORBIDDEN');
    expect((await service.call('GET', `/v1/auth/handshake/${code}`)).body.code).toBe('FORBIDDEN');
    const inQuery = await service.call('GET', `/v1/auth/handshake/${code}?verifier=${verifier}`);
    expect([inQuery.status, inQuery.body.code]).toEqual([400, 'VALIDATION_FAILED']);
  });

  it('works during maintenance', async () => {
    const token = await service.token('ada');
    await service.flags.set('maintenance_mode', true);
    expect((await page()).status).toBe(200);
    expect((await signIn(token)).status).toBe(204);
    expect((await approve()).status).toBe(200);
    expect((await poll()).body.status).toBe('approved');
  });

  it('works under the other root', async () => {
    await browser.request('GET', `/api/v1/auth/cli?code=${code}&challenge=${hash('sha256', verifier, 'base64url')}`);
    expect((await poll()).body).toEqual({ status: 'pending' });
  });
});

describe('its page', () => {
  it('cannot be framed, contains nothing inline, and is not cached', async () => {
    const { status, headers, body } = await page();
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
    expect(headers.get('content-security-policy')).not.toMatch(/unsafe/);
    expect(headers.get('x-frame-options')).toBe('DENY');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(body).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|javascript:/i);
    expect(body).not.toContain(code);
  });

  it('names the service, the time and the computer, if that is a valid name', async () => {
    const named = (await page('&host=ada-laptop.local')).body;
    expect(named).toContain('<strong>ada-laptop.local</strong>');
    expect(named).toContain(`datetime="${new Date(service.clock.now()).toISOString()}"`);
    expect(named).toContain('<strong>127.0.0.1</strong>');
    for (const host of ['%3Cscript%3E', 'a b', 'x'.repeat(65), '%22onload=']) {
      expect((await page(`&host=${host}`)).body).not.toContain('calls itself');
    }
  });

  it('offers no identity provider if there is none', async () => {
    expect((await page()).body).not.toContain('identity provider');
  });

  it.each([['code'], ['challenge']])(
    'without a valid %s is 400: a page for browsers, a problem document for programs',
    async (name) => {
      const query = new URLSearchParams({ code, challenge: random(), [name]: 'x' });
      const forPeople = await browser.request('GET', `/v1/auth/cli?${query}`, { headers: { accept: 'text/html,*/*' } });
      expect([forPeople.status, forPeople.headers.get('content-type')]).toEqual([400, 'text/html; charset=utf-8']);
      expect(forPeople.body).toContain('role="alert"');
      const forPrograms = await browser.request('GET', `/v1/auth/cli?${query}`);
      expect([forPrograms.status, forPrograms.body.code]).toEqual([400, 'VALIDATION_FAILED']);
    },
  );

  it('is 410 when the sign-in has ended', async () => {
    await page();
    service.clock.advance(600_000);
    expect((await page()).status).toBe(410);
  });

  it('loads its style and its script', async () => {
    for (const [file, type] of [
      ['sign-in.css', 'text/css; charset=utf-8'],
      ['sign-in.js', 'text/javascript; charset=utf-8'],
    ]) {
      const { status, headers } = await browser.request('GET', `/v1/auth/assets/${file}`);
      expect([status, headers.get('content-type')]).toEqual([200, type]);
    }
    expect((await browser.request('GET', '/v1/auth/assets/constructor')).status).toBe(404);
  });
});

describe('signing in at an identity provider', () => {
  it.each(['/v1/auth/login', '/v1/auth/callback?code=x&state=y'])(
    'is 404 at %s where none is configured',
    async (path) => {
      const { status, body } = await browser.request('GET', path);
      expect([status, body.code, body.detail]).toEqual([
        404,
        'NOT_FOUND',
        expect.stringContaining('No identity provider'),
      ]);
    },
  );
});
