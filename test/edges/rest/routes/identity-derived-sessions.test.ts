import { hash, randomBytes } from 'node:crypto';
import { decodeJwt } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { userCodeOf } from '../../../../src/services/handshakes.ts';
import { type Browser, browserAt } from '../../../support/browser.ts';
import { type HttpService, startHttpService } from '../../../support/http-service.ts';
import type { MemoryStore } from '../../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
let token: string;
beforeEach(async () => {
  service = await startHttpService();
  ({ token } = await service.owner());
});
afterEach(() => service.close());

const random = () => randomBytes(32).toString('base64url');
const statusOf = async (bearer: string) => (await service.call('GET', '/v1/auth/me', { token: bearer })).status;
const logOut = (bearer: string) => service.call('POST', '/v1/auth/logout', { token: bearer });

/** A browser whose session was opened with a token or the code of a sign-in link. */
async function signedIn(presented: string): Promise<Browser> {
  const browser = browserAt(service.url);
  expect((await browser.request('POST', '/v1/auth/session', { body: { token: presented } })).status).toBe(204);
  return browser;
}
const seen = async (browser: Browser) => (await browser.request('GET', '/v1/auth/me')).status;
const change = async (browser: Browser, path: string, body: object = {}) => {
  const { csrf_token } = (await browser.request('GET', '/v1/auth/csrf')).body;
  return browser.request('POST', path, { body, headers: { 'x-csrf-token': csrf_token } });
};
const codeIn = (url: string) => url.split('#sign-in=')[1] ?? '';
const linkOf = async (bearer: string) =>
  codeIn((await service.call('POST', '/v1/auth/link', { token: bearer, body: {} })).body.url);

/** An open handshake of a command line. */
async function handshake() {
  const [code, verifier] = [random(), random()];
  await fetch(`${service.url}/v1/auth/cli?code=${code}&challenge=${hash('sha256', verifier, 'base64url')}`);
  const body = { code, user_code: userCodeOf(code) };
  const poll = () =>
    service.call('GET', `/v1/auth/handshake/${code}`, { headers: { 'x-handshake-verifier': verifier } });
  return { body, poll };
}
/** The token of a command line that a browser approved. */
async function commandLineOf(browser: Browser): Promise<string> {
  const { body, poll } = await handshake();
  expect((await change(browser, '/v1/auth/cli/approve', body)).status).toBe(200);
  return (await poll()).body.access_token;
}

describe('logging out of a token', () => {
  it('ends each session and token that was derived from it, over any number of steps', async () => {
    const browser = await signedIn(token);
    const linked = await signedIn(await linkOf(token));
    const second = await signedIn(codeIn((await change(linked, '/v1/auth/link')).body.url));
    const commandLine = await commandLineOf(second);
    const own = await signedIn(commandLine);
    const other = await service.token('ada');
    for (const one of [browser, linked, second, own]) expect(await seen(one)).toBe(200);
    await logOut(token);
    for (const one of [browser, linked, second, own]) expect(await seen(one)).toBe(401);
    expect([await statusOf(commandLine), await statusOf(other)]).toEqual([401, 200]);
  });

  it('ends its sign-in links and the approvals that no command line has fetched', async () => {
    const code = await linkOf(token);
    const { body, poll } = await handshake();
    expect((await service.call('POST', '/v1/auth/cli/approve', { token, body })).status).toBe(200);
    await logOut(token);
    const browser = browserAt(service.url);
    expect((await browser.request('POST', '/v1/auth/session', { body: { token: code } })).status).toBe(401);
    expect(await poll()).toMatchObject({ status: 410, body: { code: 'GONE' } });
  });

  it('ends a command line’s token, and not the one that approved it', async () => {
    const browser = await signedIn(token);
    const commandLine = await commandLineOf(browser);
    const opened = await signedIn(commandLine);
    await logOut(commandLine);
    expect([await statusOf(commandLine), await seen(opened)]).toEqual([401, 401]);
    expect([await seen(browser), await statusOf(token)]).toEqual([200, 200]);
  });

  it('ends a command line’s token that expires later than the revoked one', async () => {
    const short = await service.token('ada', { ttlS: 60 });
    const { body, poll } = await handshake();
    await service.call('POST', '/v1/auth/cli/approve', { token: short, body });
    const { access_token } = (await poll()).body;
    expect(decodeJwt(access_token).ancestors).toEqual([decodeJwt(short).jti]);
    await logOut(short);
    service.clock.advance(3_000_000);
    expect([...service.store.revoked.values()][0]).toBeGreaterThan(service.clock.now());
    expect(await statusOf(access_token)).toBe(401);
  });
});

describe('signing out of a browser', () => {
  it('ends that session, and neither its token nor another session of that token', async () => {
    const [browser, other] = [await signedIn(token), await signedIn(token)];
    expect((await change(browser, '/v1/auth/logout')).status).toBe(200);
    expect([await seen(browser), await seen(other), await statusOf(token)]).toEqual([401, 200, 200]);
  });

  it('that a link signed in ends neither the link’s maker nor its other sessions', async () => {
    const maker = await signedIn(token);
    const linked = await signedIn(codeIn((await change(maker, '/v1/auth/link')).body.url));
    await change(linked, '/v1/auth/logout');
    expect([await seen(linked), await seen(maker), await statusOf(token)]).toEqual([401, 200, 200]);
  });

  it('ends what was derived from the session: command lines, links and their browsers', async () => {
    const browser = await signedIn(token);
    const commandLine = await commandLineOf(browser);
    const linked = await signedIn(codeIn((await change(browser, '/v1/auth/link')).body.url));
    const unused = codeIn((await change(browser, '/v1/auth/link')).body.url);
    await change(browser, '/v1/auth/logout');
    expect([await statusOf(commandLine), await seen(linked)]).toEqual([401, 401]);
    const late = browserAt(service.url);
    expect((await late.request('POST', '/v1/auth/session', { body: { token: unused } })).status).toBe(401);
  });
});

it('a session from a token that was presented at /mcp does not count as a person’s, over any number of steps', async () => {
  const first = await signedIn(token);
  const linked = await signedIn(codeIn((await change(first, '/v1/auth/link')).body.url));
  expect((await change(linked, '/v1/auth/api-keys', { name: 'x', scopes: ['all'] })).status).toBe(201);
  const origin = { via: 'mcp', requestId: service.services.newId(), address: null };
  await service.identity.authenticate(token, origin);
  expect((await change(linked, '/v1/auth/api-keys', { name: 'x', scopes: ['all'] })).body.code).toBe('FORBIDDEN');
});

it('sessions and links are derived from each other 16 times at most', async () => {
  let browser = await signedIn(token);
  for (let n = 0; n < 15; n++) browser = await signedIn(codeIn((await change(browser, '/v1/auth/link')).body.url));
  const code = codeIn((await change(browser, '/v1/auth/link')).body.url);
  const refused = await browserAt(service.url).request('POST', '/v1/auth/session', { body: { token: code } });
  expect([refused.status, refused.body.code]).toEqual([403, 'FORBIDDEN']);
});

it('a session of 16 ancestors cannot approve a command line, and one of 15 can', async () => {
  let browser = await signedIn(token);
  for (let n = 0; n < 14; n++) browser = await signedIn(codeIn((await change(browser, '/v1/auth/link')).body.url));
  expect(await statusOf(await commandLineOf(browser))).toBe(200);
  browser = await signedIn(codeIn((await change(browser, '/v1/auth/link')).body.url));
  const { body, poll } = await handshake();
  const refused = await change(browser, '/v1/auth/cli/approve', body);
  expect([refused.status, refused.body.code]).toEqual([403, 'FORBIDDEN']);
  expect((await poll()).body).toEqual({ status: 'pending' });
});

describe('showing a sign-in link', () => {
  const show = (code: string) => service.call('GET', '/v1/auth/link', { headers: { 'x-sign-in-link': code } });

  it('names its user, as often as wanted, and does not use it', async () => {
    const ada = await service.token('ada', { email: 'ada@example.com' });
    const code = await linkOf(ada);
    for (let n = 0; n < 2; n++) expect((await show(code)).body).toEqual({ ext_id: 'ada', email: 'ada@example.com' });
    await signedIn(code);
    expect(await show(code)).toMatchObject({ status: 404, body: { code: 'NOT_FOUND' } });
  });

  it('is 404 when the link has expired, after ten minutes, and when the token that made it has ended', async () => {
    const code = await linkOf(token);
    service.clock.advance(599_999);
    expect((await show(code)).status).toBe(200);
    service.clock.advance(1);
    expect((await show(code)).status).toBe(404);
    const opened = await browserAt(service.url).request('POST', '/v1/auth/session', { body: { token: code } });
    expect(opened.status).toBe(401);
    const ended = await linkOf(token);
    await logOut(token);
    expect((await show(ended)).status).toBe(404);
  });

  it('takes the code from its header alone, so that no log of URLs has it', async () => {
    const code = await linkOf(token);
    expect((await service.call('GET', `/v1/auth/link?code=${code}`)).body.code).toBe('VALIDATION_FAILED');
    expect((await service.call('GET', '/v1/auth/link')).status).toBe(404);
  });
});
