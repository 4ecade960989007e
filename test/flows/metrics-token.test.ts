import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService, type TestService } from '../support/service.ts';

const TOKEN = 'MtFx7zq2Vw9Kd3Lp';

describe('with METRICS_TOKEN', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  beforeAll(async () => {
    at = await startService({ METRICS_TOKEN: TOKEN });
    owner = await at.owner();
  });
  afterAll(() => at?.stop());

  it.each(['/metrics', '/v1/metrics', '/api/v1/metrics'])('%s needs the token', async (path) => {
    for (const token of ['', `${TOKEN}x`, TOKEN.slice(1), owner.token]) {
      const { status, body, headers } = await at.api(token).get(path);
      expect([status, body.code]).toEqual([401, 'UNAUTHENTICATED']);
      expect(headers.get('www-authenticate')).toMatch(/^Bearer realm="twinkeep"/);
      expect(JSON.stringify(body)).not.toContain(TOKEN);
    }
    const { status, body } = await at.api(TOKEN).get(path);
    expect([status, body]).toEqual([200, expect.stringContaining('twinkeep_http_requests_total')]);
  });

  it('/health shows counts with the token only', async () => {
    for (const token of ['', owner.token]) {
      const { status, body } = await at.api(token).get('/health');
      expect([status, body.status, body.metrics]).toEqual([200, 'ok', undefined]);
    }
    const { body } = await at.api(TOKEN).get('/health');
    expect(body.metrics).toEqual({ active_devices: 0 });
  });

  it('GraphQL shows counts to platform operators only', async () => {
    const query = '{ health { ... on Healthy { status metrics { activeDevices } } } }';
    const { body } = await owner.post('/graphql', { query });
    expect(body).toEqual({ data: { health: { status: 'ok', metrics: null } } });
    const operator = at.api(await at.token('operator', { scope: 'platform:admin' }));
    const seen = await operator.post('/graphql', { query });
    expect(seen.body.data.health.metrics).toEqual({ activeDevices: 0 });
  });

  it('the token is accepted in X-API-Key too, unless the request has Authorization', async () => {
    const answer = async (path: string, headers: Record<string, string>) => {
      const response = await fetch(at.url + path, { headers });
      return { status: response.status, text: await response.text() };
    };
    expect(await answer('/metrics', { 'X-API-Key': TOKEN })).toMatchObject({ status: 200 });
    expect((await answer('/health', { 'X-API-Key': TOKEN })).text).toContain('active_devices');
    for (const headers of [{ 'X-API-Key': `${TOKEN}x` }, { 'X-API-Key': TOKEN, Authorization: 'Basic eDp5' }]) {
      const { status, text } = await answer('/metrics', headers);
      expect([status, JSON.parse(text).detail]).toEqual([
        401,
        'Present METRICS_TOKEN as a bearer token or in X-API-Key.',
      ]);
    }
  });

  it('requests with and without the token are not tried as sign-ins', async () => {
    for (const path of ['/metrics', '/health']) {
      for (const token of [TOKEN, 'wrong']) expect((await at.api(token).get(path)).headers.get('ratelimit')).toBeNull();
      for (const key of [TOKEN, 'wrong']) {
        const response = await fetch(at.url + path, { headers: { 'X-API-Key': key } });
        expect(response.headers.get('ratelimit')).toBeNull();
        await response.body?.cancel();
      }
    }
  });

  it('the token is a credential for nothing else', async () => {
    expect((await at.api(TOKEN).get('/v1/auth/me')).status).toBe(401);
    const response = await fetch(`${at.url}/v1/auth/me`, { headers: { 'X-API-Key': TOKEN } });
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ code: 'UNAUTHENTICATED' });
  });
});

describe('without METRICS_TOKEN', () => {
  it('metrics and counts are public', async () => {
    const at = await startService();
    try {
      expect((await at.api().get('/metrics')).status).toBe(200);
      expect((await at.api().get('/health')).body.metrics).toEqual({ active_devices: 0 });
    } finally {
      await at.stop();
    }
  });
});
