import { hash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import { userCodeOf } from '../../src/services/handshakes.ts';
import { type Browser, browserAt } from '../support/browser.ts';
import { eventually } from '../support/clock.ts';
import { CLIENT, type IdentityProvider, identityProvider } from '../support/identity-provider.ts';
import { type RunningNode, RunningNodes } from '../support/running-nodes.ts';
import { makeApiClient } from '../support/service.ts';

/** Where the provider sends the browser back to: a balancer in front of the nodes. */
const PUBLIC_URL = 'http://nodes.example';

describe.runIf(inject('postgresUrl'))('sign-ins over three nodes', () => {
  const kinds: [string, string | null][] = [['without Redis', null]];
  if (inject('redisUrl') !== null) kinds.push(['with Redis', inject('redisUrl')]);

  describe.each(kinds)('%s', (_, redisUrl) => {
    let idp: IdentityProvider;
    const env: Record<string, string> = { PUBLIC_URL, OIDC_CLIENT_ID: CLIENT.id, OIDC_CLIENT_SECRET: CLIENT.secret };
    if (redisUrl !== null) env.REDIS_URL = redisUrl;
    beforeAll(async () => {
      vi.spyOn(console, 'info').mockImplementation(() => {});
      vi.spyOn(console, 'warn').mockImplementation(() => {});
      idp = await identityProvider();
      await idp.configure(`${PUBLIC_URL}/v1/auth/callback`);
      env.OIDC_ISSUER = idp.issuer;
      env.OIDC_AUDIENCE = 'https://api.nodes.example';
    });
    const running = new RunningNodes(env);
    afterAll(() => idp?.close());

    const three = () => running.nodes as [RunningNode, RunningNode, RunningNode];
    /** The same browser at another node. */
    const movedTo = ({ url }: RunningNode, { cookies }: Browser): Browser =>
      Object.assign(browserAt(url), { cookies: new Map(cookies) });

    it('a cookie session works at every node, and has ended at all when it was closed at one', async () => {
      const [first, second, third] = three();
      const browser = browserAt(first.url);
      const token = await running.token('ada');
      expect((await browser.request('POST', '/v1/auth/session', { body: { token } })).status).toBe(204);
      for (const node of three()) {
        const { body } = await movedTo(node, browser).request('GET', '/v1/auth/me');
        expect(body.user.ext_id).toBe('ada');
      }
      const other = movedTo(second, browser);
      const headers = { 'x-csrf-token': (await other.request('GET', '/v1/auth/csrf')).body.csrf_token };
      const before = movedTo(third, browser);
      expect((await other.request('POST', '/v1/auth/logout', { headers })).status).toBe(200);
      for (const node of [first, third]) {
        const stale = movedTo(node, before);
        await eventually(async () => (await stale.request('GET', '/v1/auth/me')).status === 401);
      }
    });

    it('a command line signs in with steps at different nodes', async () => {
      const [first, second, third] = three();
      const [code, verifier] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')];
      const browser = browserAt(first.url);
      await browser.request('POST', '/v1/auth/session', { body: { token: await running.token('grace') } });
      const challenge = hash('sha256', verifier, 'base64url');
      await movedTo(second, browser).request('GET', `/v1/auth/cli?code=${code}&challenge=${challenge}`);
      const approving = movedTo(third, browser);
      const headers = { 'x-csrf-token': (await approving.request('GET', '/v1/auth/csrf')).body.csrf_token };
      const body = { code, user_code: userCodeOf(code) };
      expect((await approving.request('POST', '/v1/auth/cli/approve', { body, headers })).status).toBe(200);
      const poll = () =>
        makeApiClient(second.url, '').get(`/v1/auth/handshake/${code}`, { 'x-handshake-verifier': verifier });
      const polled = await poll();
      expect(polled.body.status).toBe('approved');
      const me = await makeApiClient(first.url, polled.body.access_token).get('/v1/auth/me');
      expect(me.body.user.ext_id).toBe('grace');
    });

    it('a command line gets one token, also if it polls all nodes at once', async () => {
      const [first, second] = three();
      const [code, verifier] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')];
      const browser = browserAt(first.url);
      await browser.request('POST', '/v1/auth/session', { body: { token: await running.token('katherine') } });
      const challenge = hash('sha256', verifier, 'base64url');
      await movedTo(second, browser).request('GET', `/v1/auth/cli?code=${code}&challenge=${challenge}`);
      const headers = { 'x-csrf-token': (await browser.request('GET', '/v1/auth/csrf')).body.csrf_token };
      const body = { code, user_code: userCodeOf(code) };
      expect((await browser.request('POST', '/v1/auth/cli/approve', { body, headers })).status).toBe(200);
      const polled = await Promise.all(
        [...three(), ...three(), ...three()].map(({ url }) =>
          makeApiClient(url, '').get(`/v1/auth/handshake/${code}`, { 'x-handshake-verifier': verifier }),
        ),
      );
      // The others arrive while it is issued, or later.
      const others = polled.filter(({ body: { access_token } }) => access_token === undefined);
      expect(others).toHaveLength(8);
      for (const { status, body: answer } of others)
        expect([answer.status, status]).toContain(status === 410 ? 410 : 'pending');
      const later = await makeApiClient(second.url, '').get(`/v1/auth/handshake/${code}`, {
        'x-handshake-verifier': verifier,
      });
      expect(later.status).toBe(410);
    });

    it('a browser starts a sign-in with the provider at one node, and ends it at another', async () => {
      const [first, second, third] = three();
      const browser = browserAt(first.url);
      const { headers } = await browser.request('GET', '/v1/auth/login');
      const back = new URL(await idp.signIn(headers.get('location') ?? '', 'olga'));
      expect(back.origin).toBe(PUBLIC_URL);
      const returned = movedTo(second, browser);
      const ended = await returned.request('GET', `${back.pathname}${back.search}`);
      expect([ended.status, ended.headers.get('location')]).toEqual([303, '/console']);
      const { body } = await movedTo(third, returned).request('GET', '/v1/auth/me');
      expect(body.user.ext_id).toBe('olga');
    });
  });
});
