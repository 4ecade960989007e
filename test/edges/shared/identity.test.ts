import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { internalTokens, makeIdentity, type Proof, type Verifier } from '../../../src/edges/shared/identity.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { type House, makeHouse } from '../../support/house.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

let house: House<MemoryStore>;
beforeEach(async () => {
  house = await makeHouse();
});
afterEach(() => house.close());

const me = (token?: string) => house.call('GET', '/v1/auth/me', { token });

describe('who presents a token', () => {
  it('becomes a user with role none and no tenant when first seen', async () => {
    const token = await house.token('ada', { email: 'ada@example.com' });
    const { status, body } = await me(token);
    expect(status).toBe(200);
    expect(body).toEqual({
      authenticated: true,
      has_tenant: false,
      user: {
        id: expect.any(String),
        ext_id: 'ada',
        email: 'ada@example.com',
        role: 'none',
        tenant_id: null,
        tenant_slug: null,
      },
      invitations: [],
    });
  });

  it('is the same user with every token, made once however many requests come at once', async () => {
    const tokens = await Promise.all([1, 2, 3, 4].map(() => house.token('ada')));
    const answers = await Promise.all(tokens.map(me));
    expect(new Set(answers.map(({ body }) => body.user.id)).size).toBe(1);
    expect(house.store.users.size).toBe(1);
  });

  it('costs no read of the store when nothing changed', async () => {
    const token = await house.token('ada');
    await me(token);
    const before = house.store.userReads;
    for (let n = 0; n < 5; n++) await me(token);
    expect(house.store.userReads).toBe(before);
  });

  it('has a new role with the next request after the change', async () => {
    const { tenantId } = await house.owner();
    const token = await house.member(tenantId, 'viewer');
    const rename = () => house.call('POST', '/v1/homes', { token, body: { home_name: 'x' } });
    expect((await rename()).status).toBe(403);
    const { id } = (await me(token)).body.user;
    await house.become(id, { role: 'admin' });
    expect((await rename()).status).toBe(201);
  });

  it('has the verified email of the newest token', async () => {
    await me(await house.token('ada', { email: 'old@example.com' }));
    expect((await me(await house.token('ada', { email: 'new@example.com' }))).body.user.email).toBe('new@example.com');
  });
});

describe('a request', () => {
  it('without a credential is 401 with a challenge', async () => {
    const { status, headers, body } = await me();
    expect([status, body.code]).toEqual([401, 'UNAUTHENTICATED']);
    expect(headers.get('www-authenticate')).toBe('Bearer realm="twinkeep"');
  });

  it.each([
    ['a text', 'Bearer nonsense'],
    ['an empty token', 'Bearer '],
    ['another scheme', 'Basic YWRhOnNlY3JldA=='],
    ['an overlong token', `Bearer ${'x'.repeat(9_000)}`],
    ['a key of a kind we do not know', 'Bearer tk_12345678_abcdefgh'],
  ])('with %s is 401', async (_, authorization) => {
    const { status, headers } = await house.call('GET', '/v1/auth/me', { headers: { authorization } });
    expect(status).toBe(401);
    expect(headers.get('www-authenticate')).toBe('Bearer realm="twinkeep", error="invalid_token"');
  });

  it('with a good token under no scheme, or another one, is 401', async () => {
    const token = await house.token('ada');
    for (const authorization of [token, `Token ${token}`, `Basic ${token}`]) {
      expect((await house.call('GET', '/v1/auth/me', { headers: { authorization } })).status).toBe(401);
    }
  });

  it('is answered while its token lives, and 401 after, though the token was seen before', async () => {
    const token = await house.token('ada', { ttlS: 60 });
    expect((await me(token)).status).toBe(200);
    house.clock.advance(89_000);
    expect((await me(token)).status).toBe(200);
    house.clock.advance(2_000);
    expect((await me(token)).status).toBe(401);
  });

  it('where no caller is needed is answered whatever it presents', async () => {
    const { status } = await house.call('GET', '/version', { headers: { authorization: 'Bearer nonsense' } });
    expect(status).toBe(200);
  });

  it('is 503 when the store is away at first sight, and good afterwards', async () => {
    const token = await house.token('ada');
    house.store.trouble = () => {
      throw new StoreUnavailable('away');
    };
    const away = await me(token);
    expect([away.status, away.body.code, away.headers.get('retry-after')]).toEqual([503, 'STORE_UNAVAILABLE', '2']);
    house.store.trouble = null;
    expect((await me(token)).status).toBe(200);
  });
});

describe('logging out', () => {
  const logout = (token?: string) => house.call('POST', '/v1/auth/logout', { token });

  it('ends the presented token at once, and no other', async () => {
    const [token, other] = [await house.token('ada'), await house.token('ada')];
    expect((await logout(token)).body).toEqual({ status: 'logged_out' });
    expect((await me(token)).status).toBe(401);
    expect((await me(other)).status).toBe(200);
  });

  it('ends a token that was never seen before', async () => {
    const token = await house.token('ada');
    await logout(token);
    expect((await me(token)).status).toBe(401);
  });

  it('is good without a token, or with a bad one', async () => {
    expect((await logout()).status).toBe(200);
    expect((await logout('nonsense')).status).toBe(200);
  });

  it('works in maintenance and in a suspended tenant', async () => {
    const { token, tenantId } = await house.owner();
    await house.flags.set('maintenance_mode', true);
    await house.runtime.actors.send({ kind: 'tenant', id: tenantId }, { type: 'suspend', at: house.clock.now() });
    expect((await me(token)).status).toBe(200);
    expect((await logout(token)).status).toBe(200);
  });
});

describe('another kind of credential', () => {
  const asking = { via: 'rest', requestId: '0195d9a2-7f00-7000-8000-000000000000', address: null };

  /** Something like an API key: of a user that is known, in one tenant, with a capped role. */
  async function withKeys() {
    const { tenantId, userId } = await house.owner();
    const { users, revocations, presented, news, clock, newId } = house.services;
    const proof: Proof = {
      who: { userId },
      key: 'abcdefgh',
      ...{ tenantId, roleCap: 'admin', scopes: ['read:devices'], platformAdmin: false, person: false, token: null },
      until: Number.POSITIVE_INFINITY,
    };
    let verified = 0;
    const keys: Verifier = {
      recognises: (credential) => credential.startsWith('tk_'),
      verify: async (credential) => {
        verified++;
        return credential === 'tk_good' ? proof : null;
      },
    };
    const identity = makeIdentity({
      verifiers: [internalTokens(house.key, clock), keys],
      ...{ users, revocations, presented, news, clock, newId, gate: house.gate },
    });
    const ask = async () => identity.authenticate('tk_good', asking);
    return { identity, ask, userId, tenantId, verified: () => verified };
  }

  it('is a row in the list of verifiers, and is verified once', async () => {
    const { ask, userId, tenantId, verified } = await withKeys();
    await ask();
    expect(await ask()).toMatchObject({
      ok: true,
      value: {
        principal: { kind: 'user', id: userId, key: 'abcdefgh', via: 'rest', person: false },
        ...{ tenantId, role: 'admin', scopes: ['read:devices'], token: null, requestId: asking.requestId },
      },
    });
    expect(verified()).toBe(1);
  });

  it('is dead when its user has left the tenant, and has its user’s lesser role', async () => {
    const { ask, userId } = await withKeys();
    await house.become(userId, { role: 'viewer' });
    expect(await ask()).toMatchObject({ value: { role: 'viewer' } });
    await house.become(userId, { tenantId: null, role: 'none' });
    expect(await ask()).toMatchObject({ ok: false, refusal: { code: 'UNAUTHENTICATED' } });
  });

  it('is verified again when it was forgotten', async () => {
    const { identity, ask, verified } = await withKeys();
    await ask();
    identity.forget(({ key }) => key === 'other');
    await ask();
    expect(verified()).toBe(1);
    identity.forget(({ key }) => key === 'abcdefgh');
    await ask();
    expect(verified()).toBe(2);
  });
});
