import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { fakeCredential, fakeVerifier } from '../../../support/fake-verifier.ts';
import type { CallOptions, HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase({ verifiers: [fakeVerifier] });
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const get = (sent?: CallOptions) => mine.call('GET', '/tenant/policy', undefined, sent);
const patch = (body: unknown, sent?: CallOptions) => mine.call('PATCH', '/tenant/policy', body, sent);
const DEFAULT = { confirm_by: 'requester', confirm_ttl_s: 300 };
const journal = () => service.services.store.actors.journal({ kind: 'tenant', id: mine.tenantId }, 20);

describe('GET /tenant/policy', () => {
  it('shows the default to admins of the tenant, under both roots', async () => {
    expect((await get()).body).toEqual({ policy: DEFAULT });
    const answer = await service.call('GET', '/api/v1/tenant/policy', { token: mine.tokens.admin });
    expect([answer.status, answer.body]).toEqual([200, { policy: DEFAULT }]);
    for (const token of [mine.tokens.user, mine.tokens.viewer]) {
      expect((await get({ token })).body.code).toBe('FORBIDDEN_ROLE');
    }
  });

  it('requires read:tenant of a key', async () => {
    const key = (scope: string) => fakeCredential(mine.userId, { key: 'aaaaaaaa', scopes: [scope] as never });
    expect((await get({ token: key('read:tenant') })).status).toBe(200);
    expect((await get({ token: key('read:commands') })).body.code).toBe('INSUFFICIENT_SCOPE');
  });

  it('requires a sign-in and a tenant', async () => {
    expect((await service.call('GET', '/v1/tenant/policy')).status).toBe(401);
    const outsider = await service.call('GET', '/v1/tenant/policy', { token: await service.token('stranger') });
    expect([outsider.status, outsider.body.code]).toEqual([403, 'TENANT_REQUIRED']);
  });
});

describe('PATCH /tenant/policy', () => {
  it('changes the named members and keeps the others', async () => {
    const first = await patch({ confirm_by: 'person' });
    expect([first.status, first.body]).toEqual([200, { policy: { ...DEFAULT, confirm_by: 'person' } }]);
    const second = await patch({ confirm_ttl_s: 60 }, { token: mine.tokens.admin });
    expect(second.body).toEqual({ policy: { confirm_by: 'person', confirm_ttl_s: 60 } });
    expect((await get()).body).toEqual(second.body);
  });

  it('keeps both parts of two concurrent changes', async () => {
    await Promise.all([patch({ confirm_by: 'another_principal' }), patch({ confirm_ttl_s: 86_400 })]);
    expect((await get()).body.policy).toEqual({ confirm_by: 'another_principal', confirm_ttl_s: 86_400 });
  });

  it('is journaled with its user, and not if nothing changes', async () => {
    await patch({ confirm_by: 'person' }, { token: mine.tokens.admin });
    for (const body of [{}, { confirm_by: 'person' }, { confirm_ttl_s: 300 }]) {
      expect((await patch(body)).status).toBe(200);
    }
    const entries = (await journal()).filter(({ event }) => event === 'policy.set');
    expect(entries).toHaveLength(1);
    const { id } = (await service.call('GET', '/v1/auth/me', { token: mine.tokens.admin })).body.user;
    expect(entries[0]).toMatchObject({
      by: { kind: 'user', id, via: 'rest', person: true },
      data: { policy: { confirm_by: 'person', confirm_ttl_s: 300 } },
    });
  });

  it('accepts 60 to 86,400 whole seconds and the three names only', async () => {
    for (const confirm_ttl_s of [60, 86_400]) expect((await patch({ confirm_ttl_s })).status).toBe(200);
    const wrong = [
      ...[59, 86_401, 0, -60, 60.5, '60', null].map((confirm_ttl_s) => ({ confirm_ttl_s })),
      ...['anybody', '', null, ['person'], 'Person'].map((confirm_by) => ({ confirm_by })),
      { confirm_by: 'person', more: 1 },
      { policy: DEFAULT },
    ];
    for (const body of wrong) {
      const answer = await patch(body);
      expect([answer.status, answer.body.code], JSON.stringify(body)).toEqual([400, 'VALIDATION_FAILED']);
    }
    expect((await get()).body.policy).toEqual({ confirm_by: 'requester', confirm_ttl_s: 86_400 });
  });

  it('is reserved for admins in person: no lower role, no key, no agent token', async () => {
    const refused = async (token: string) => {
      const answer = await patch({ confirm_by: 'person' }, { token });
      return [answer.status, answer.body.code];
    };
    expect(await refused(mine.tokens.user)).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(await refused(mine.tokens.viewer)).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(await refused(fakeCredential(mine.userId, { key: 'aaaaaaaa' }))).toEqual([403, 'FORBIDDEN']);
    expect(await refused(fakeCredential(mine.userId, { key: 'aaaaaaab', scopes: ['*:*'] }))).toEqual([
      403,
      'FORBIDDEN',
    ]);
    expect(await refused(fakeCredential(mine.userId, { key: 'aaaaaaac', person: true }))).toEqual([403, 'FORBIDDEN']);
    expect(await refused(fakeCredential(mine.userId))).toEqual([403, 'FORBIDDEN']);
    expect((await get()).body.policy).toEqual(DEFAULT);
    expect(
      (await patch({ confirm_by: 'person' }, { token: fakeCredential(mine.userId, { person: true }) })).status,
    ).toBe(200);
  });

  it('is refused during maintenance', async () => {
    await service.flags.set('maintenance_mode', true);
    const [read, change] = [await get(), await patch({ confirm_ttl_s: 60 })];
    await service.flags.set('maintenance_mode', false);
    expect([read.status, change.status, change.body.code]).toEqual([200, 503, 'MAINTENANCE']);
  });
});
