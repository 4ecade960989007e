import { hash, randomBytes } from 'node:crypto';
import { describe, expect, inject, it } from 'vitest';
import { userCodeOf } from '../../src/services/handshakes.ts';
import { connectPostgres } from '../../src/store/postgres/connect.ts';
import { browserAt } from '../support/browser.ts';
import { eventually } from '../support/clock.ts';
import {
  type Deployment,
  makeDeployment,
  makePgliteDeployment,
  makePostgresDeployment,
} from '../support/deployment.ts';
import { startService } from '../support/service.ts';
import { SocketClient } from '../support/state-sockets.ts';

const redisUrl = inject('redisUrl');
const kinds = [
  { where: 'the embedded store', make: makePgliteDeployment, redis: {} },
  ...(inject('postgresUrl') === null ? [] : [{ where: 'PostgreSQL', make: makePostgresDeployment, redis: {} }]),
  ...(redisUrl === null ? [] : [{ where: 'Redis', make: makeDeployment, redis: { REDIS_URL: redisUrl } }]),
];

describe.each(kinds)('with sessions in $where', ({ make, redis }) => {
  it('a cookie session, its CSRF token, a wall and a pending sign-in survive a restart', async () => {
    const deployment = await make();
    if (deployment === null) throw new Error('PostgreSQL is not installed');
    const env = { ...deployment.env, ...redis };
    const [code, verifier] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')];
    try {
      const before = await startService(env);
      const { token } = await before.owner('ada');
      const browser = browserAt(before.url);
      const { csrf_token } = (await browser.request('GET', '/v1/auth/csrf')).body;
      const headers = { 'x-csrf-token': csrf_token };
      await browser.request('POST', '/v1/auth/session', { body: { token } });
      await browser.request('GET', `/v1/auth/cli?code=${code}&challenge=${hash('sha256', verifier, 'base64url')}`);
      const body = { code, user_code: userCodeOf(code) };
      expect((await browser.request('POST', '/v1/auth/cli/approve', { body, headers })).status).toBe(200);
      await before.stop();

      const after = await startService(env);
      const again = browserAt(after.url);
      again.cookies = browser.cookies;
      expect((await again.request('GET', '/v1/auth/me')).body.user.ext_id).toBe('ada');
      const { ticket } = (await again.request('POST', '/ws/ticket', { headers, body: {} })).body;
      const wall = new SocketClient(`${after.url.replace('http', 'ws')}/ws/state?token=${ticket}`);
      await wall.opened;
      wall.socket.send('ping');
      await eventually(() => wall.texts.includes('pong'));
      const polled = await after.api().get(`/v1/auth/handshake/${code}`, { 'x-handshake-verifier': verifier });
      expect(polled.body.status).toBe('approved');
      const commandLine = after.api(polled.body.access_token);
      expect((await commandLine.get('/v1/auth/me')).status).toBe(200);
      expect((await again.request('POST', '/v1/auth/logout', { headers })).status).toBe(200);
      expect((await commandLine.get('/v1/auth/me')).status).toBe(401);
      await after.stop();
    } finally {
      await deployment.remove();
    }
  });
});

it.runIf(inject('postgresUrl'))(
  'the entries in the database have no cookie, code, ticket, token or id in clear text',
  async () => {
    const deployment = (await makePostgresDeployment()) as Deployment;
    const code = randomBytes(32).toString('base64url');
    const database = connectPostgres(deployment.databaseUrl ?? '');
    const service = await startService(deployment.env);
    try {
      const { token, userId, post } = await service.owner();
      const browser = browserAt(service.url);
      await browser.request('POST', '/v1/auth/session', { body: { token } });
      await browser.request('GET', `/v1/auth/cli?code=${code}&challenge=${code}`);
      const { url } = (await post('/v1/auth/link', {})).body;
      const { ticket } = (await post('/ws/ticket', {})).body;
      const rows = await database.read<{ key: string; value: string }>({
        text: 'select key, value from cache_entries',
      });
      expect(rows.map(({ key }) => key.slice(0, key.indexOf(':'))).sort()).toEqual([
        'handshake',
        'session',
        'sign-in link',
        'ticket',
      ]);
      const text = JSON.stringify(rows);
      const link = url.split('#sign-in=')[1];
      for (const secret of [...browser.cookies.values(), code, link, ticket, token, userId]) {
        expect(secret).toMatch(/^.{36}/);
        expect(text).not.toContain(secret);
      }
    } finally {
      await service.stop();
      await database.close();
      await deployment.remove();
    }
  },
);
