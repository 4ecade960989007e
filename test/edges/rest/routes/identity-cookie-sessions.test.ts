import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeCookies } from '../../../../src/edges/shared/cookies.ts';
import { fingerprint } from '../../../../src/services/cookie-sessions.ts';
import { type Browser, browserAt } from '../../../support/browser.ts';
import { type HttpService, startHttpService } from '../../../support/http-service.ts';
import type { MemoryStore } from '../../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
let browser: Browser;
let token: string;
beforeEach(async () => {
  service = await startHttpService();
  browser = browserAt(service.url);
  ({ token } = await service.owner());
});
afterEach(() => service.close());

const open = (presented = token) => browser.request('POST', '/v1/auth/session', { body: { token: presented } });
const me = () => browser.request('GET', '/v1/auth/me');
const csrf = async (): Promise<string> => (await browser.request('GET', '/v1/auth/csrf')).body.csrf_token;
const makeHome = (headers: Record<string, string> = {}) =>
  browser.request('POST', '/v1/homes', { body: { home_name: 'x' }, headers });

describe('a cookie session', () => {
  it('is opened with a person’s token, with an HttpOnly and SameSite cookie', async () => {
    const { status, body, headers } = await open();
    expect([status, body]).toEqual([204, '']);
    expect(headers.getSetCookie()).toHaveLength(1);
    expect(headers.getSetCookie()[0]).toMatch(
      /^twinkeep_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+$/,
    );
    expect((await me()).status).toBe(200);
  });

  it('stores neither its token nor its cookie in the cache', async () => {
    const kept: string[] = [];
    const { set } = service.services.cache;
    service.services.cache.set = (key, value, ttl) => {
      kept.push(key, value);
      return set.call(service.services.cache, key, value, ttl);
    };
    await open();
    expect(kept).toHaveLength(2);
    for (const text of kept) {
      expect(text).not.toContain(token);
      expect(text).not.toContain(browser.cookies.get('twinkeep_session'));
    }
  });

  it('cannot be forged by writing to the cache', async () => {
    const { body } = await service.call('GET', '/v1/auth/me', { token });
    const until = service.clock.now() + 60_000;
    const secret = 'A'.repeat(43);
    const name = fingerprint(secret);
    const holder = { userId: body.user.id, scopes: null, platformAdmin: true, csrf: null };
    const forged = { ...holder, name, until, token: { id: 'x', expiresAt: until } };
    await service.services.cache.set(`session:${name}`, JSON.stringify(forged), 60_000);
    browser.cookies.set('twinkeep_session', secret);
    expect((await me()).status).toBe(401);
  });

  it('allows reads without a CSRF token, and changes only with it', async () => {
    await open();
    const refused = await makeHome();
    expect([refused.status, refused.body.code]).toEqual([403, 'CSRF_FAILED']);
    expect((await makeHome({ 'x-csrf-token': await csrf() })).status).toBe(201);
  });

  it('accepts each CSRF token of the session, not only the last one', async () => {
    await open();
    const [first, second] = [await csrf(), await csrf()];
    expect(first).not.toBe(second);
    expect((await makeHome({ 'x-csrf-token': first })).status).toBe(201);
    expect((await makeHome({ 'x-csrf-token': second })).status).toBe(201);
  });

  it('keeps the CSRF token of the browser from before the sign-in', async () => {
    const before = await csrf();
    await open();
    expect((await makeHome({ 'x-csrf-token': before })).status).toBe(201);
  });

  it('keeps it also if the browser still has the cookie of an ended session', async () => {
    browser.cookies.set('twinkeep_session', 'A'.repeat(43));
    const before = await csrf();
    await open();
    expect((await makeHome({ 'x-csrf-token': before })).status).toBe(201);
  });

  it('rejects malformed CSRF tokens, and those of another session or of none', async () => {
    const outsider = browserAt(service.url);
    const nobodys = (await outsider.request('GET', '/v1/auth/csrf')).body.csrf_token;
    await outsider.request('POST', '/v1/auth/session', { body: { token: await service.token('mallory') } });
    const anothers = (await outsider.request('GET', '/v1/auth/csrf')).body.csrf_token;
    await open();
    for (const wrong of [nobodys, anothers, '', 'x', 'v1.', 'x'.repeat(4_000), `${await csrf()}x`]) {
      expect((await makeHome({ 'x-csrf-token': wrong })).body.code).toBe('CSRF_FAILED');
    }
  });

  it('replaces a CSRF cookie that the service did not create', async () => {
    browser.cookies.set('twinkeep_csrf', 'planted');
    await open();
    expect((await makeHome({ 'x-csrf-token': 'planted' })).body.code).toBe('CSRF_FAILED');
  });

  it('ends with its token, to the second, without leeway', async () => {
    await open(await service.token('ada', { ttlS: 600 }));
    service.clock.advance(598_000);
    expect((await me()).status).toBe(200);
    service.clock.advance(3_000);
    expect((await me()).status).toBe(401);
  });

  it('ends 12 hours after the sign-in, although its token is valid for longer', async () => {
    const long = await service.token('ada', { ttlS: 86_400 });
    await open(long);
    service.clock.advance(12 * 3_600_000 - 2_000);
    expect((await me()).status).toBe(200);
    service.clock.advance(3_000);
    expect((await me()).status).toBe(401);
    const again = await open(long);
    expect([again.status, again.body.detail]).toEqual([403, 'Your sign-in is too old: sign in again.']);
  });

  it('ends when its token is logged out elsewhere', async () => {
    await open();
    await service.call('POST', '/v1/auth/logout', { token });
    expect((await me()).status).toBe(401);
  });

  it('is closed by the next one of the same browser', async () => {
    await open();
    const older = browser.cookies.get('twinkeep_session');
    await open(await service.token('ada'));
    expect((await me()).body.user.ext_id).toBe('ada');
    browser.cookies.set('twinkeep_session', older ?? '');
    expect((await me()).status).toBe(401);
  });

  it('is not reported as ended while it may be unknown to this process only', async () => {
    await open();
    const headers = { 'x-csrf-token': await csrf() };
    const known = browser.cookies.get('twinkeep_session') ?? '';
    service.services.cache.isComplete = () => false;
    browser.cookies.set('twinkeep_session', 'A'.repeat(43));
    const refused = await browser.request('POST', '/v1/auth/logout');
    expect([refused.status, refused.body.code, refused.headers.get('retry-after')]).toEqual([
      ...[503, 'STORE_UNAVAILABLE', '5'],
    ]);
    expect(browser.cookies.get('twinkeep_session')).toBe('A'.repeat(43));
    browser.cookies.set('twinkeep_session', known);
    expect((await browser.request('POST', '/v1/auth/logout', { headers })).status).toBe(200);
    browser.cookies.set('twinkeep_session', known);
    expect((await me()).status).toBe(401);
    expect((await service.call('POST', '/v1/auth/logout', {})).status).toBe(200);
  });

  it('is opened once by a sign-in link, also if the entry of the link is written to the cache again', async () => {
    const { cache } = service.services;
    const written: Parameters<typeof cache.set>[] = [];
    const { set } = cache;
    cache.set = (...entry) => {
      written.push(entry);
      return set.apply(cache, entry);
    };
    const { url } = (await service.call('POST', '/v1/auth/link', { token, body: {} })).body;
    const link = `${url}`.split('sign-in=')[1] ?? '';
    const [entry] = written;
    expect((await open(link)).status).toBe(204);
    if (entry !== undefined) await cache.set(...entry);
    expect((await open(link)).body.code).toBe('UNAUTHENTICATED');
    const shown = await browser.request('GET', '/v1/auth/link', { headers: { 'x-sign-in-link': link } });
    expect(shown.status).toBe(404);
  });

  it('has exactly the permissions of its token: scopes and platform administration', async () => {
    await open(await service.token('ada', { scope: 'read:devices' }));
    const outcome = await service.services.cookieSessions.find(browser.cookies.get('twinkeep_session') ?? '');
    expect(outcome).toMatchObject({ scopes: ['read:devices'], platformAdmin: false });
  });

  it.each([
    ['a text', 'nonsense'],
    ['a token signed with another key', 'eyJhbGciOiJFZERTQSJ9.eyJpc3MiOiJ1cm46dHdpbmtlZXAifQ.AAAA'],
    ['an API key of no shape', 'tk_12345678_x'],
  ])('cannot be opened by %s', async (_, presented) => {
    const { status, body } = await open(presented);
    expect([status, body.code]).toEqual([401, 'UNAUTHENTICATED']);
    expect(browser.cookies.size).toBe(0);
  });

  it('cannot be opened with an API key, which is not a person’s', async () => {
    const body = { name: 'Night shift', scopes: ['all'] };
    const { key } = (await service.call('POST', '/v1/auth/api-keys', { token, body })).body;
    const { status, body: notified } = await open(key);
    expect([status, notified.code, browser.cookies.size]).toEqual([403, 'FORBIDDEN', 0]);
  });

  it('cannot be opened with an agent token, and is not a person’s if that is presented later', async () => {
    const asking = { via: 'mcp', requestId: service.services.newId(), address: null };
    await service.identity.authenticate(await service.token('ada', { jti: 'before' }), asking);
    expect((await open(await service.token('ada', { jti: 'before' }))).body.code).toBe('FORBIDDEN');
    await open();
    const headers = { 'x-csrf-token': await csrf() };
    const invite = () =>
      browser.request('POST', '/v1/auth/api-keys', { body: { name: 'x', scopes: ['all'] }, headers });
    expect((await invite()).status).toBe(201);
    await service.identity.authenticate(token, asking);
    expect((await invite()).body.code).toBe('FORBIDDEN');
    expect((await me()).status).toBe(200);
  });

  it('has a rate limit per user, also without a valid CSRF token', async () => {
    await service.close();
    service = await startHttpService({ fixedRates: { session: 4 } });
    browser = browserAt(service.url);
    await open(await service.token('ada'));
    const first = await me();
    expect(first.headers.get('ratelimit-policy')).toBe('"session";q=4;w=60');
    for (let n = 0; n < 3; n++) expect((await makeHome()).status).toBe(403);
    expect((await makeHome()).body.code).toBe('RATE_LIMIT_EXCEEDED');
  });

  it('is opened with JSON only, which forms of other sites cannot send', async () => {
    const headers = { 'content-type': 'text/plain' };
    expect((await browser.request('POST', '/v1/auth/session', { body: { token }, headers })).status).toBe(415);
  });

  it('can be opened and closed during maintenance, and changes nothing else', async () => {
    await service.flags.set('maintenance_mode', true);
    expect((await open()).status).toBe(204);
    const headers = { 'x-csrf-token': await csrf() };
    expect((await makeHome(headers)).status).toBe(503);
    expect((await browser.request('POST', '/v1/auth/logout', { headers })).status).toBe(200);
  });

  it('needs no read of store or cache if nothing changed', async () => {
    await open();
    await me();
    const { userReads } = service.store;
    let cacheReads = 0;
    const { get } = service.services.cache;
    service.services.cache.get = (key) => {
      cacheReads++;
      return get.call(service.services.cache, key);
    };
    for (let n = 0; n < 5; n++) await me();
    expect([service.store.userReads - userReads, cacheReads]).toEqual([0, 0]);
  });
});

describe('next to a cookie', () => {
  it('a credential in the headers has priority, needs no CSRF token, and falls back to nothing', async () => {
    await open();
    const ada = await service.token('ada');
    const requested = await browser.request('GET', '/v1/auth/me', { headers: { authorization: `Bearer ${ada}` } });
    expect(requested.body.user.ext_id).toBe('ada');
    expect((await makeHome({ authorization: `Bearer ${token}` })).status).toBe(201);
    for (const headers of [{ authorization: 'Bearer nonsense' }, { 'x-api-key': 'nonsense' }]) {
      expect((await browser.request('GET', '/v1/auth/me', { headers })).status).toBe(401);
    }
  });

  it('public requests are answered, for any invalid cookie', async () => {
    for (const bad of ['x', 'A'.repeat(43), '', '"quoted"', '%00']) {
      browser.cookies.set('twinkeep_session', bad);
      expect((await browser.request('GET', '/version')).status).toBe(200);
      expect((await browser.request('GET', '/v1/auth/csrf')).status).toBe(200);
      expect((await me()).status).toBe(401);
      expect((await browser.request('POST', '/v1/auth/logout')).status).toBe(200);
    }
  });
});

describe('logging out of a cookie session', () => {
  it('requires the CSRF token, clears the cookies, and leaves the token that opened it valid', async () => {
    await open();
    const headers = { 'x-csrf-token': await csrf() };
    expect((await browser.request('POST', '/v1/auth/logout')).body.code).toBe('CSRF_FAILED');
    const { status, body } = await browser.request('POST', '/v1/auth/logout', { headers });
    expect([status, body]).toEqual([200, { status: 'logged_out' }]);
    expect(browser.cookies.size).toBe(0);
    expect((await service.call('GET', '/v1/auth/me', { token })).status).toBe(200);
  });

  it('ends the token in the header too, if both are present', async () => {
    await open();
    const session = browser.cookies.get('twinkeep_session') ?? '';
    const ada = await service.token('ada');
    await browser.request('POST', '/v1/auth/logout', { headers: { authorization: `Bearer ${ada}` } });
    expect((await service.call('GET', '/v1/auth/me', { token: ada })).status).toBe(401);
    browser.cookies.set('twinkeep_session', session);
    expect((await me()).status).toBe(401);
    expect((await service.call('GET', '/v1/auth/me', { token })).status).toBe(200);
  });

  it('makes a stolen cookie useless', async () => {
    await open();
    const stolen = new Map(browser.cookies);
    await browser.request('POST', '/v1/auth/logout', { headers: { 'x-csrf-token': await csrf() } });
    browser.cookies = stolen;
    expect((await me()).status).toBe(401);
  });
});

describe('under HTTPS', () => {
  const cookies = makeCookies({ secure: true, clock: { now: () => 0 } });

  it('a cookie is Secure, with the __Host- prefix', () => {
    expect(cookies.set({ name: 'session', value: 'x', until: 60_000 })).toEqual([
      'Set-Cookie',
      '__Host-twinkeep_session=x; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=60',
    ]);
  });

  it('a cookie expires by the reference clock, as its token, while the service clock is corrected', () => {
    const corrected = makeCookies({ secure: true, clock: { now: () => 86_400_000, reference: () => 0 } });
    expect(corrected.set({ name: 'session', value: 'x', until: 60_000 })[1]).toContain('Max-Age=60');
  });

  it('a cookie without that prefix is ignored', () => {
    expect(cookies.readBrowserCookies({ cookie: 'twinkeep_session=x' })).toEqual({ session: null, csrf: null });
    expect(cookies.readBrowserCookies({ cookie: 'a=b; __Host-twinkeep_session=y' })).toEqual({
      session: 'y',
      csrf: null,
    });
    expect(cookies.readBrowserCookies({})).toBeUndefined();
  });
});
