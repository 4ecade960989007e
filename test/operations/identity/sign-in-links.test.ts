import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LINK_LIFE_S } from '../../../src/operations/identity/sign-in-links.ts';
import { createApiKey, markAsAgentToken } from '../../support/access-fixture.ts';
import { browserAt } from '../../support/browser.ts';
import { type ApiClient, startService, type TestService } from '../../support/service.ts';

describe('a sign-in link', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
  });
  afterAll(() => at?.stop());

  async function codeOf(who: ApiClient): Promise<string> {
    const { status, body } = await who.post('/v1/auth/link');
    expect([status, body.expires_in]).toEqual([201, LINK_LIFE_S]);
    return new URL(body.url).hash.slice('#sign-in='.length);
  }
  const redeem = async (code: string) => {
    const browser = browserAt(at.url);
    return { browser, ...(await browser.request('POST', '/v1/auth/session', { body: { token: code } })) };
  };

  it('works once, for the user who created it', async () => {
    const code = await codeOf(owner);
    const { status, browser } = await redeem(code);
    expect(status).toBe(204);
    expect((await browser.request('GET', '/v1/auth/me')).body.user.id).toBe(owner.userId);
    expect((await redeem(code)).status).toBe(401);
  });

  it('signs in one of two concurrent browsers', async () => {
    const code = await codeOf(owner);
    const both = await Promise.all([redeem(code), redeem(code)]);
    expect(both.map(({ status }) => status).sort()).toEqual([204, 401]);
  });

  it('is not a bearer token', async () => {
    const code = await codeOf(owner);
    expect((await at.api(code).get('/v1/auth/me')).status).toBe(401);
    expect((await redeem(code)).status).toBe(204);
  });

  it('ends with the token that created it', async () => {
    const sub = at.api(await at.token('leaver'));
    const code = await codeOf(sub);
    await sub.post('/v1/auth/logout');
    expect((await redeem(code)).status).toBe(401);
  });

  it('has no more scopes than the token that created it', async () => {
    const narrow = at.api(await at.token('owner-1', { email: 'owner-1@example.com', scope: 'read:homes' }));
    const { browser } = await redeem(await codeOf(narrow));
    expect((await browser.request('GET', '/v1/homes')).status).toBe(200);
    expect((await browser.request('GET', '/v1/devices')).body.code).toBe('INSUFFICIENT_SCOPE');
  });

  it('is created by a person only: not with a key, and not with an agent token', async () => {
    const { key } = await createApiKey(owner);
    expect((await at.api(key).post('/v1/auth/link')).body.code).toBe('FORBIDDEN');
    const agents = await at.token('agent');
    const code = await codeOf(at.api(agents));
    await markAsAgentToken(at, agents);
    expect((await at.api(agents).post('/v1/auth/link')).body.code).toBe('FORBIDDEN');
    expect((await redeem(code)).body.code).not.toBe(undefined);
  });
});
