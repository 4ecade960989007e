import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Browser, browserAt } from '../support/browser.ts';
import { eventually } from '../support/clock.ts';
import { CLIENT, type IdentityProvider, identityProvider } from '../support/identity-provider.ts';
import { startService, type TestService } from '../support/service.ts';

const AUDIENCE = 'https://api.twinkeep.example';
let idp: IdentityProvider;
let at: TestService;

beforeAll(async () => {
  vi.spyOn(console, 'info').mockImplementation(() => {});
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  idp = await identityProvider();
  at = await startService({
    OIDC_ISSUER: idp.issuer,
    OIDC_AUDIENCE: AUDIENCE,
    OIDC_CLIENT_ID: CLIENT.id,
    OIDC_CLIENT_SECRET: CLIENT.secret,
  });
  await idp.configure(`${at.url}/v1/auth/callback`);
  at.clock.advance(2_000);
});
afterAll(async () => {
  await at?.stop();
  await idp?.close();
});

describe('signing out at the provider', () => {
  const SECOND_MS = 1_000;
  async function signIn(login: string): Promise<Browser> {
    const browser = browserAt(at.url);
    const { headers } = await browser.request('GET', '/v1/auth/login');
    const back = await idp.signIn(headers.get('location') ?? '', login);
    expect((await browser.request('GET', back)).status).toBe(303);
    return browser;
  }
  const seen = async (browser: Browser) => (await browser.request('GET', '/v1/auth/me')).status;
  const send = (logout_token: string) =>
    browserAt(at.url).request('POST', '/v1/auth/backchannel-logout', { form: { logout_token } });

  it('ends the sessions of that session of the provider, and not those of another one', async () => {
    const [browser, other, someone] = [await signIn('lena'), await signIn('lena'), await signIn('mia')];
    // The last browser that `lena` signed in with.
    await idp.signOut('lena');
    await eventually(async () => (await seen(other)) === 401);
    expect([await seen(browser), await seen(someone)]).toEqual([200, 200]);
    expect(await seen(await signIn('lena'))).toBe(200);
  });

  it('ends what was derived from the session: a sign-in link’s browser and a command line’s token', async () => {
    const browser = await signIn('nils');
    const { csrf_token } = (await browser.request('GET', '/v1/auth/csrf')).body;
    const headers = { 'x-csrf-token': csrf_token };
    const { url } = (await browser.request('POST', '/v1/auth/link', { body: {}, headers })).body;
    const linked = browserAt(at.url);
    await linked.request('POST', '/v1/auth/session', { body: { token: url.split('#sign-in=')[1] } });
    expect(await seen(linked)).toBe(200);
    await idp.signOut('nils');
    await eventually(async () => (await seen(browser)) === 401);
    expect(await seen(linked)).toBe(401);
  });

  it('in a session leaves a token without `sid` valid, although the logout token names its user too', async () => {
    const token = await idp.accessToken('rosa', AUDIENCE);
    expect(decodeJwt(token)).toMatchObject({ sub: 'rosa' });
    expect(decodeJwt(token)).not.toHaveProperty('sid');
    const browser = await signIn('rosa');
    expect((await at.api(token).get('/v1/auth/me')).status).toBe(200);
    await idp.signOut('rosa');
    await eventually(async () => (await seen(browser)) === 401);
    expect((await at.api(token).get('/v1/auth/me')).status).toBe(200);
    // The logout that names the user alone.
    at.clock.advance(2 * SECOND_MS);
    expect((await send(await idp.logoutToken({ sub: 'rosa' }))).status).toBe(200);
    expect((await at.api(token).get('/v1/auth/me')).status).toBe(401);
    at.clock.set(Date.now());
  });

  it('of a user ends every earlier sign-in of the user, and no later one', async () => {
    const [browser, other] = [await signIn('olaf'), await signIn('olaf')];
    const token = await idp.accessToken('olaf', AUDIENCE);
    expect((await at.api(token).get('/v1/auth/me')).status).toBe(200);
    at.clock.advance(2 * SECOND_MS);
    const { status, headers } = await send(await idp.logoutToken({ sub: 'olaf' }));
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect([await seen(browser), await seen(other)]).toEqual([401, 401]);
    expect((await at.api(token).get('/v1/auth/me')).status).toBe(401);
    expect(await seen(await signIn('olaf'))).toBe(200);
    at.clock.set(Date.now());
  });

  it('of a user who was never here, or of an unknown session, changes nothing', async () => {
    for (const claims of [{ sub: 'unknown' }, { sid: 'unknown' }]) {
      expect((await send(await idp.logoutToken(claims))).status).toBe(200);
    }
  });

  it('is refused for a token that is not a logout token, and for one that was used', async () => {
    const browser = await signIn('petra');
    const used = await idp.logoutToken({ sid: 'x' });
    expect((await send(used)).status).toBe(200);
    const sub = 'petra';
    const event = 'http://schemas.openid.net/event/backchannel-logout';
    const refused: Record<string, string> = {
      used,
      'not a token': 'x',
      'an access token': await idp.accessToken('petra', AUDIENCE),
      'without events': await idp.logoutToken({ sub, events: undefined }),
      'with another event': await idp.logoutToken({ sub, events: { 'https://example.com/event': {} } }),
      'with an event that is no object': await idp.logoutToken({ sub, events: { [event]: true } }),
      'with a nonce': await idp.logoutToken({ sub, nonce: 'n' }),
      'without subject and session': await idp.logoutToken({}),
      'without jti': await idp.logoutToken({ sub, jti: undefined }),
      'without iat': await idp.logoutToken({ sub, iat: undefined }),
      'without exp': await idp.logoutToken({ sub, exp: undefined }),
      expired: await idp.logoutToken({ sub, exp: Math.floor(Date.now() / 1000) - 60 }),
      'for another client': await idp.logoutToken({ sub, aud: 'other' }),
      'of another issuer': await idp.logoutToken({ sub, iss: 'https://elsewhere.example' }),
      'of another type': await idp.logoutToken({ sub }, { typ: 'at+jwt' }),
    };
    for (const [what, token] of Object.entries(refused)) {
      const { status, body } = await send(token);
      expect([what, status, body.code]).toEqual([what, 400, 'VALIDATION_FAILED']);
    }
    expect(await seen(browser)).toBe(200);
  });

  it('takes a logout token that never expires', async () => {
    const token = await idp.logoutToken({ sid: 'x', exp: 1e300 });
    expect((await send(token)).status).toBe(200);
    expect((await send(token)).status).toBe(400);
  });

  it('takes one logout token in a form of at most 32 KiB', async () => {
    const post = (body: string, type = 'application/x-www-form-urlencoded') =>
      fetch(`${at.url}/v1/auth/backchannel-logout`, { method: 'POST', headers: { 'content-type': type }, body });
    const token = await idp.logoutToken({ sid: 'x' });
    expect((await post('')).status).toBe(400);
    expect((await post(`logout_token=${token}&logout_token=${token}`)).status).toBe(400);
    expect((await post(JSON.stringify({ logout_token: token }), 'application/json')).status).toBe(415);
    expect((await post('x'.repeat(32_769))).status).toBe(413);
    expect((await post(`state=x&logout_token=${token}`)).status).toBe(200);
  });

  it('does not accept a logout token as an access token of the same audience', async () => {
    const token = await idp.logoutToken({ sub: 'petra', aud: [CLIENT.id, AUDIENCE] }, { typ: 'JWT' });
    expect((await at.api(token).get('/v1/auth/me')).status).toBe(401);
    expect((await send(token)).status).toBe(200);
  });
});
