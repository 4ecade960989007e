import { afterEach, describe, expect, it } from 'vitest';
import { runningClock, startService, type TestService } from '../support/service.ts';
import { startTestIssuer, type TestIssuer } from '../support/test-issuer.ts';

const AUDIENCE = 'https://twinkeep.example';
let at: TestService;
let issuer: TestIssuer;

afterEach(async () => {
  await at?.stop();
  await issuer?.close();
});

/** A service whose identity provider signs tokens with any claims, and a tenant of its user `ada`. */
async function begin(env: Record<string, string> = {}, registering: Record<string, unknown> = {}): Promise<void> {
  const clock = runningClock();
  issuer = await startTestIssuer(clock, AUDIENCE);
  at = await startService({ OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: AUDIENCE, ...env }, { clock });
  const { status } = await at.api(await issuer.token(registering)).post('/v1/tenant/register', { tenant_name: 'Ada' });
  expect(status).toBe(201);
}

/** 201, or the code of the refusal, of a request that needs `write:homes`. */
const makeHome = async (claims: Record<string, unknown>): Promise<number | string> => {
  const { status, body } = await at.api(await issuer.token(claims)).post('/v1/homes', { home_name: 'Hut' });
  return status === 201 ? status : body.code;
};

describe('a token of the identity provider', () => {
  it('whose scope claim names nothing of the service may do nothing that needs a scope', async () => {
    await begin();
    for (const scope of ['openid profile', 'twinkeep:read', 'write:home', 'WRITE:HOMES', 'readonly', '']) {
      expect([scope, await makeHome({ scope })]).toEqual([scope, 'INSUFFICIENT_SCOPE']);
      expect([scope, await makeHome({ scp: scope.split(' ') })]).toEqual([scope, 'INSUFFICIENT_SCOPE']);
    }
    expect(await makeHome({ scope: 'openid write:homes' })).toBe(201);
    expect(await makeHome({})).toBe(201);
  });

  it('has the scopes in `scp` if there is no `scope`, as text with spaces or as a list', async () => {
    await begin();
    for (const scp of ['access_as_user write:homes', ['access_as_user', 'write:homes']])
      expect(await makeHome({ scp })).toBe(201);
    for (const scp of ['access_as_user read:homes', 'write:homes,read:homes', []])
      expect([scp, await makeHome({ scp })]).toEqual([scp, 'INSUFFICIENT_SCOPE']);
    expect(await makeHome({ scope: 'read:homes', scp: 'write:homes' })).toBe('INSUFFICIENT_SCOPE');
    for (const scp of [7, ['write:homes', 7], { write: 'homes' }])
      expect(await makeHome({ scp })).toBe('UNAUTHENTICATED');
  });

  it('without a scope claim may do nothing that needs a scope, where the claim is required', async () => {
    await begin({ OIDC_SCOPE: 'required' }, { scope: 'write:tenant' });
    expect(await makeHome({})).toBe('INSUFFICIENT_SCOPE');
    expect(await makeHome({ scope: 'openid' })).toBe('INSUFFICIENT_SCOPE');
    expect(await makeHome({ scope: 'write:homes' })).toBe(201);
    expect(await makeHome({ scp: ['*:*'] })).toBe(201);
    // Internal tokens are issued by the service itself.
    expect((await at.owner('grace')).homeId).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('has the scopes with the prefix alone, where there is one', async () => {
    const prefixed = { OIDC_SCOPE: 'required', OIDC_SCOPE_PREFIX: 'twinkeep:' };
    await begin(prefixed, { scope: 'twinkeep:write:tenant' });
    expect(await makeHome({ scope: 'write:homes' })).toBe('INSUFFICIENT_SCOPE');
    expect(await makeHome({ scope: 'openid twinkeep:write:homes' })).toBe(201);
  });
});

describe('a token of a platform operator', () => {
  it('whose scope claim does not name platform:admin has no authority over the platform', async () => {
    await begin({ OIDC_PLATFORM_CLAIM: 'groups:operators' });
    const statusOf = async (claims: Record<string, unknown>) =>
      (await at.api(await issuer.token({ groups: ['operators'], ...claims })).get('/v1/admin/tenants')).status;
    expect(await statusOf({ scope: 'openid profile' })).toBe(403);
    expect(await statusOf({ scope: 'read:devices' })).toBe(403);
    expect(await statusOf({ scope: 'openid platform:admin' })).toBe(200);
    expect(await statusOf({ scp: 'read:devices platform:admin' })).toBe(200);
    expect(await statusOf({ scope: '*:*' })).toBe(403);
    expect(await statusOf({ scope: '*:* platform:admin' })).toBe(200);
    expect(await statusOf({})).toBe(200);
    expect(await statusOf({ groups: [], scope: 'platform:admin' })).toBe(403);
  });

  it('names platform:admin with the prefix, and has no authority without a required claim', async () => {
    const settings = { OIDC_SCOPE: 'required', OIDC_SCOPE_PREFIX: 'twinkeep:' };
    await begin({ OIDC_PLATFORM_CLAIM: 'groups:operators', ...settings }, { scope: 'twinkeep:write:tenant' });
    const statusOf = async (claims: Record<string, unknown>) =>
      (await at.api(await issuer.token({ groups: ['operators'], ...claims })).get('/v1/admin/tenants')).status;
    expect(await statusOf({ scope: 'twinkeep:platform:admin' })).toBe(200);
    expect(await statusOf({ scope: 'platform:admin' })).toBe(403);
    expect(await statusOf({ scope: 'twinkeep:*:*' })).toBe(403);
    expect(await statusOf({})).toBe(403);
  });
});

describe('an internal token', () => {
  it('whose scope claim names nothing of the service may do nothing that needs a scope', async () => {
    await begin();
    await at.owner('grace');
    for (const scope of ['openid profile', 'read:device', 'platform:admin openid']) {
      const { status, body } = await at.api(await at.token('grace', { scope })).get('/v1/homes');
      expect([scope, status, body.code]).toEqual([scope, 403, 'INSUFFICIENT_SCOPE']);
    }
    const operator = at.api(await at.token('grace', { scope: 'platform:admin' }));
    expect((await operator.get('/v1/homes')).status).toBe(200);
  });
});
