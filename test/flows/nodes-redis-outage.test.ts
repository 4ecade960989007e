import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Browser, browserAt } from '../support/browser.ts';
import { eventually } from '../support/clock.ts';
import { type RunningNode, RunningNodes, type TenantOwner } from '../support/running-nodes.ts';
import { makeApiClient } from '../support/service.ts';
import { makeTestRedis, type TestRedis } from '../support/test-redis.ts';

describe.runIf(inject('postgresUrl') !== null && inject('redisUrl') !== null)('three nodes without Redis', () => {
  const env: Record<string, string> = {};
  let redis: TestRedis;
  beforeAll(async () => {
    redis = (await makeTestRedis()) as TestRedis;
    await redis.start();
    env.REDIS_URL = redis.url;
  });
  const running = new RunningNodes(env);
  let owner: TenantOwner;
  beforeAll(async () => {
    owner = await running.owner('owner');
  });
  afterAll(() => redis?.kill());

  const isReady = async ({ url }: RunningNode) => (await fetch(`${url}/health/ready`)).ok;
  const areReady = () =>
    eventually(async () => (await Promise.all(running.nodes.map(isReady))).every((ready) => ready));
  /** Redis starts again without its entries; resolves when the nodes have written theirs. */
  const restart = async (): Promise<void> => {
    await redis.start();
    await areReady();
  };
  const openSession = async (node: RunningNode, token: string): Promise<Browser> => {
    const browser = browserAt(node.url);
    expect((await browser.request('POST', '/v1/auth/session', { body: { token } })).status).toBe(204);
    return browser;
  };
  /** The same browser at another node. */
  const movedTo = ({ url }: RunningNode, { cookies }: Browser): Browser =>
    Object.assign(browserAt(url), { cookies: new Map(cookies) });
  const me = async (browser: Browser) => (await browser.request('GET', '/v1/auth/me')).status;

  it('do not report a session as ended that they do not know, and that exists when Redis is back', async () => {
    const [through] = (await running.othersOf(owner.tenantId)) as [RunningNode];
    await areReady();
    const browser = await openSession(through, owner.token);
    await redis.kill();
    for (const node of running.nodes) {
      const { status, body, headers } = await movedTo(node, browser).request('POST', '/v1/auth/logout');
      expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'STORE_UNAVAILABLE', '5']);
      expect(headers.getSetCookie()).toEqual([]);
    }
    await restart();
    for (const node of running.nodes) await eventually(async () => (await me(movedTo(node, browser))) === 200);
    const csrf = (await browser.request('GET', '/v1/auth/csrf')).body.csrf_token;
    const before = movedTo(through, browser);
    const ended = await browser.request('POST', '/v1/auth/logout', { headers: { 'x-csrf-token': csrf } });
    expect(ended.status).toBe(200);
    for (const node of running.nodes) await eventually(async () => (await me(movedTo(node, before))) === 401);
  });

  it('use a sign-in link once, although the node that made it writes it to an empty Redis', async () => {
    const [through] = (await running.othersOf(owner.tenantId)) as [RunningNode];
    await areReady();
    const link = (await owner.post('/v1/auth/link')).body.url.split('sign-in=')[1];
    await openSession(through, link);
    await redis.kill();
    await restart();
    for (const { url } of running.nodes) {
      const api = makeApiClient(url, '');
      expect((await api.get('/v1/auth/link', { 'x-sign-in-link': link })).status).toBe(404);
      expect((await api.post('/v1/auth/session', { token: link })).status).toBe(401);
    }
  });
});
