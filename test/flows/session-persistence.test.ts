import { hash, randomBytes } from 'node:crypto';
import { describe, expect, inject, it } from 'vitest';
import { userCodeOf } from '../../src/services/handshakes.ts';
import { browserAt } from '../support/browser.ts';
import { makeDeployment } from '../support/deployment.ts';
import { startService } from '../support/service.ts';

describe.runIf(inject('redisUrl'))('with Redis', () => {
  it('a cookie session, its CSRF token and a pending sign-in survive a restart', async () => {
    const deployment = await makeDeployment();
    const env = { ...deployment.env, REDIS_URL: inject('redisUrl') ?? '' };
    const [code, verifier] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')];
    try {
      const before = await startService(env);
      const browser = browserAt(before.url);
      const { csrf_token } = (await browser.request('GET', '/v1/auth/csrf')).body;
      const headers = { 'x-csrf-token': csrf_token };
      await browser.request('POST', '/v1/auth/session', { body: { token: await before.token('ada') } });
      await browser.request('GET', `/v1/auth/cli?code=${code}&challenge=${hash('sha256', verifier, 'base64url')}`);
      const body = { code, user_code: userCodeOf(code) };
      expect((await browser.request('POST', '/v1/auth/cli/approve', { body, headers })).status).toBe(200);
      await before.stop();

      const after = await startService(env);
      const again = browserAt(after.url);
      again.cookies = browser.cookies;
      expect((await again.request('GET', '/v1/auth/me')).body.user.ext_id).toBe('ada');
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
