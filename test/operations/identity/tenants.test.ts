import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EventFailed } from '../../../src/actors/contract.ts';
import { CommitUnknown, DataRefused } from '../../../src/store/contract.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
beforeEach(async () => {
  service = await startHttpService();
});
afterEach(() => service.close());

const register = (token: string, tenant_name: unknown = 'Home & Garden') =>
  service.call('POST', '/v1/tenant/register', { token, body: { tenant_name } });
const me = async (token: string) => (await service.call('GET', '/v1/auth/me', { token })).body;

describe('registering a tenant', () => {
  it('makes the caller its owner at once, with the current token', async () => {
    const token = await service.token('ada');
    const before = await me(token);
    const { status, body } = await register(token);
    expect(status).toBe(201);
    expect(body).toEqual({ tenant_id: expect.any(String), user_id: before.user.id });
    expect(await me(token)).toMatchObject({
      has_tenant: true,
      user: { role: 'owner', tenant_id: body.tenant_id, tenant_slug: 'home-garden' },
    });
  });

  it('is 409 for a user who has a tenant', async () => {
    const { token } = await service.owner();
    const { status, body } = await register(token);
    expect([status, body.code]).toEqual([409, 'CONFLICT']);
  });

  it('creates one tenant for concurrent requests', async () => {
    const token = await service.token('ada');
    const answers = await Promise.all([1, 2, 3, 4, 5].map(() => register(token)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409]);
  });

  it('gives tenants with the same name different slugs, also concurrently', async () => {
    const tokens = await Promise.all(Array.from({ length: 12 }, (_, n) => service.token(`u${n}`)));
    await Promise.all(tokens.map((token) => register(token, 'Acme')));
    const slugs = await Promise.all(tokens.map(async (token) => (await me(token)).user.tenant_slug));
    expect(new Set(slugs).size).toBe(12);
    expect(slugs).toContain('acme');
    for (const slug of slugs) expect(slug).toMatch(/^acme(-[0-9a-f]+)?$/);
  });

  it.each([
    ['another node has taken the slug since it was read', '23505', 201, 2],
    ['the database refuses the data for another reason', '22001', 500, 1],
  ])('is tried again only if %s', async (_, sqlState, status, attempts) => {
    const token = await service.token('ada');
    const { actors } = service.services;
    const create = actors.create.bind(actors);
    let created = 0;
    actors.create = async (...requested) => {
      created += 1;
      if (created > 1) return create(...requested);
      throw new EventFailed('refused', { cause: new DataRefused(sqlState, 'refused') });
    };
    expect((await register(token)).status).toBe(status);
    expect(created).toBe(attempts);
    actors.create = create;
  });

  it('takes effect at once, also after a commit with an unknown outcome', async () => {
    const token = await service.token('ada');
    await me(token);
    const { actors } = service.services;
    const { create } = actors;
    actors.create = async (...requested) => {
      await create.apply(actors, requested);
      throw new CommitUnknown('connection lost');
    };
    expect((await register(token)).status).toBe(503);
    actors.create = create;
    expect(await me(token)).toMatchObject({ has_tenant: true, user: { role: 'owner' } });
  });

  it('takes effect for a user who was read while the commit was in flight', async () => {
    const token = await service.token('ada');
    const { actors } = service.services;
    const { create } = actors;
    const stall = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    actors.create = async (...requested) => {
      stall.promise.then(() => create.apply(actors, requested)).then(() => ended.resolve(), ended.reject);
      throw new CommitUnknown('no answer from the store', { ended: ended.promise });
    };
    expect((await register(token)).status).toBe(503);
    actors.create = create;
    expect(await me(token)).toMatchObject({ has_tenant: false });
    stall.resolve();
    await ended.promise;
    expect(await me(token)).toMatchObject({ has_tenant: true, user: { role: 'owner' } });
  });

  it('is refused under the registration lock', async () => {
    await service.flags.set('registration_lock', true);
    const { status, body } = await register(await service.token('ada'));
    expect([status, body.code]).toEqual([503, 'REGISTRATION_LOCKED']);
  });

  it.each([[''], ['   '], ['x'.repeat(101)], [7], [null], ['a\u0007']])('refuses the name %j', async (name) => {
    expect((await register(await service.token('ada'), name)).status).toBe(400);
  });
});

describe('an operation that requires a tenant', () => {
  it('is 403 TENANT_REQUIRED without one', async () => {
    const token = await service.token('ada');
    for (const path of ['/homes', '/devices', '/groups', '/manifest/types']) {
      const { status, body } = await service.call('GET', `/v1${path}`, { token });
      expect([path, status, body.code]).toEqual([path, 403, 'TENANT_REQUIRED']);
    }
  });

  it('is 403 TENANT_SUSPENDED while it is suspended, and works when it is resumed', async () => {
    const { token, tenantId } = await service.owner();
    const ref = { kind: 'tenant', id: tenantId } as const;
    await service.runtime.actors.send(ref, { type: 'suspend', at: service.clock.now() });
    const { status, body } = await service.call('GET', '/v1/homes', { token });
    expect([status, body.code]).toEqual([403, 'TENANT_SUSPENDED']);
    expect((await me(token)).user.tenant_id).toBe(tenantId);
    await service.runtime.actors.send(ref, { type: 'resume', at: service.clock.now() });
    expect((await service.call('GET', '/v1/homes', { token })).status).toBe(200);
  });
});
