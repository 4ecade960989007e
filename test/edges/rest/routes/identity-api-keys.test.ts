import { setImmediate } from 'node:timers/promises';
import { decodeJwt } from 'jose';
import { describe, expect, it } from 'vitest';
import { SCOPE_RULE } from '../../../../src/domain/scopes.ts';
import { DROPPED_ANSWER } from '../../../../src/store/contract.ts';
import { earlierApiKey, withChecksum } from '../../../support/api-keys.ts';
import { answer, create, HOUR, list, me, newKey, owner, post, service, withOwner } from '../api-key-requests.ts';

withOwner();

describe('a new key', () => {
  it('is shown once, with its prefix, and stored as a hash', async () => {
    const { status, body } = await create(owner.token, {
      name: 'Night shift',
      scopes: ['read:devices', 'read:devices'],
    });
    expect(status).toBe(201);
    expect(body).toEqual({
      status: 'created',
      key: expect.stringMatching(/^twk_[a-z2-7]{8}_[A-Za-z0-9]{49}$/),
      prefix: body.key.slice(4, 12),
      name: 'Night shift',
    });
    const kept = JSON.stringify([...service.store.apiKeys.values()]);
    expect(kept).not.toContain(body.key.slice(13));
    const { keys, next_cursor } = (await list(owner.token)).body;
    expect(next_cursor).toBeNull();
    expect(keys).toEqual([
      {
        prefix: body.prefix,
        name: 'Night shift',
        scopes: ['read:devices'],
        created_at: new Date(service.clock.now()).toISOString(),
        created_by: owner.userId,
        last_used_at: null,
        expires_at: null,
        revoked_at: null,
        grace_until: null,
        restrict_to: null,
      },
    ]);
  });

  it('is accepted as a bearer or as X-API-Key, and acts for its creator, at most as an admin', async () => {
    const { key } = await newKey();
    const byBearer = await me(key);
    const byHeader = await service.call('GET', '/v1/auth/me', { headers: { 'x-api-key': key } });
    expect(byHeader.body).toEqual(byBearer.body);
    expect(byBearer.body).toMatchObject({
      authenticated: true,
      has_tenant: true,
      user: { id: owner.userId, role: 'admin', tenant_id: owner.tenantId },
      invitations: [],
    });
    expect((await post('/homes', key, { home_name: 'x' })).status).toBe(201);
    const viewers = await newKey(await service.member(owner.tenantId, 'viewer'));
    expect((await me(viewers.key)).body.user.role).toBe('viewer');
    expect(answer(await post('/homes', viewers.key, { home_name: 'x' }))).toEqual([403, 'FORBIDDEN_ROLE']);
  });

  it('has the permissions of its scopes, or all of its role with `all`', async () => {
    const { key } = await newKey(owner.token, { scopes: ['read:*'] });
    expect((await service.call('GET', '/v1/homes', { token: key })).status).toBe(200);
    expect(answer(await post('/homes', key, { home_name: 'x' }))).toEqual([403, 'INSUFFICIENT_SCOPE']);
    const all = await newKey(owner.token, { scopes: ['all'] });
    expect((await post('/homes', all.key, { home_name: 'x' })).status).toBe(201);
    const scopes = (await list(owner.token)).body.keys.map((listed: { scopes: string[] }) => listed.scopes);
    expect(scopes.sort()).toEqual([['all'], ['read:*']]);
  });

  it.each([
    ['without a name', { scopes: ['all'] }],
    ['with a blank name', { name: ' ', scopes: ['all'] }],
    ['with a name of 101 characters', { name: 'x'.repeat(101), scopes: ['all'] }],
    ['with an unknown scope', { name: 'x', scopes: ['read:everything'] }],
    ['with a scope that is none', { name: 'x', scopes: ['read'] }],
    ['with a platform scope', { name: 'x', scopes: ['platform:admin'] }],
    ['with a scope of three parts', { name: 'x', scopes: ['read:devices:*'] }],
    ['with scopes that are not a list', { name: 'x', scopes: 'read:devices' }],
    ['without scopes', { name: 'x' }],
    ['with an empty list of scopes', { name: 'x', scopes: [] }],
    ['with `all` beside a scope', { name: 'x', scopes: ['all', 'read:devices'] }],
    ['with `all` in place of a list', { name: 'x', scopes: 'all' }],
    ['with an invalid expiry', { name: 'x', scopes: ['all'], expires_at: 'tomorrow' }],
    ['with an end in the past', { name: 'x', scopes: ['all'], expires_at: '2020-01-01T00:00:00.000Z' }],
    ['with an unknown member', { name: 'x', scopes: ['all'], role: 'owner' }],
  ])('%s is 400', async (_, body) => {
    expect(answer(await create(owner.token, body))).toEqual([400, 'VALIDATION_FAILED']);
  });

  it('has scopes that its request names: an empty list or an unknown scope is refused with what is accepted', async () => {
    const { body } = await create(owner.token, { name: 'x', scopes: [] });
    expect(body.errors).toEqual([{ path: 'scopes', message: 'must name scopes, or `all`' }]);
    const unknown = await create(owner.token, { name: 'x', scopes: ['read'] });
    expect(unknown.body.errors).toEqual([{ path: 'scopes.0', message: SCOPE_RULE }]);
    expect(SCOPE_RULE).toMatch(/^must be `all`, or `<verb>:<resource>` with a verb of read, .* of devices, /);
    const narrow = await service.token(`${decodeJwt(owner.token).sub}`, { scope: 'read:devices write:tenant' });
    const asNarrow = (scopes: string[]) => create(narrow, { name: 'x', scopes });
    expect(answer(await asNarrow(['all']))).toEqual([403, 'INSUFFICIENT_SCOPE']);
    expect((await asNarrow(['read:devices'])).status).toBe(201);
  });

  it('made without scopes by an earlier version still has all of its role, and is shown with `all`', async () => {
    const { key, prefix } = await newKey();
    expect(service.store.apiKeys.get(prefix)?.scopes).toEqual([]);
    expect((await post('/homes', key, { home_name: 'x' })).status).toBe(201);
    expect((await list(owner.token)).body.keys[0].scopes).toEqual(['all']);
  });

  it('is refused to a user with a hundred keys, until one is revoked', async () => {
    const keys: { prefix: string }[] = [];
    for (let n = 0; n < 100; n++) keys.push(await newKey());
    expect(answer(await create(owner.token))).toEqual([409, 'CONFLICT']);
    expect((await create(await service.member(owner.tenantId, 'user'))).status).toBe(201);
    await post('/auth/api-keys/revoke', owner.token, { prefix: keys[0]?.prefix });
    expect((await create(owner.token)).status).toBe(201);
  });

  it('is counted also when many are requested together', async () => {
    const { keys } = service.store;
    const { live } = keys;
    // As a database, which answers after other requests have arrived.
    keys.live = async (...given) => {
      const found = await live.apply(keys, given);
      for (let n = 0; n < 50; n += 1) await setImmediate();
      return found;
    };
    const answers = await Promise.all(Array.from({ length: 110 }, () => create(owner.token)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(100);
    expect(answers.filter(({ body }) => body.code === 'CONFLICT')).toHaveLength(10);
  });

  it('is refused to a user without a tenant, and in a suspended tenant', async () => {
    expect(answer(await create(await service.token('nobody')))).toEqual([403, 'TENANT_REQUIRED']);
    const { key } = await newKey();
    const tenant = { kind: 'tenant', id: owner.tenantId } as const;
    await service.runtime.actors.send(tenant, { type: 'suspend', at: service.clock.now() });
    expect(answer(await create(owner.token))).toEqual([403, 'TENANT_SUSPENDED']);
    expect(answer(await list(key))).toEqual([403, 'TENANT_SUSPENDED']);
    expect((await me(key)).body.user.tenant_id).toBe(owner.tenantId);
  });
});

describe('a stored response', () => {
  it('shows the key to the same request again, and not after the key is revoked or rotated', async () => {
    const first = await create(owner.token, { name: 'a', scopes: ['all'] }, { 'idempotency-key': 'k' });
    const again = await create(owner.token, { name: 'a', scopes: ['all'] }, { 'idempotency-key': 'k' });
    expect([again.status, again.body]).toEqual([201, first.body]);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const { prefix } = first.body;
    const rotate = () => post('/auth/api-keys/rotate', owner.token, { prefix }, { 'idempotency-key': 'r' });
    const rotated = await rotate();
    expect((await rotate()).body).toEqual(rotated.body);
    expect(answer(await create(owner.token, { name: 'a', scopes: ['all'] }, { 'idempotency-key': 'k' }))).toEqual([
      409,
      'CONFLICT',
    ]);
    await post('/auth/api-keys/revoke', owner.token, { prefix: rotated.body.prefix }, { 'idempotency-key': 'v' });
    expect(answer(await rotate())).toEqual([409, 'CONFLICT']);
    const revoked = await post(
      '/auth/api-keys/revoke',
      owner.token,
      { prefix: rotated.body.prefix },
      { 'idempotency-key': 'v' },
    );
    expect(revoked.headers.get('idempotent-replayed')).toBe('true');
  });

  it('is dropped with the member whose key it shows', async () => {
    const token = await service.member(owner.tenantId, 'user');
    await create(token, { name: 'a', scopes: ['all'] }, { 'idempotency-key': 'k' });
    const { id } = (await me(token)).body.user;
    expect(service.store.idempotencyRows.size).toBe(1);
    expect((await service.call('DELETE', `/v1/tenant/members/${id}`, { token: owner.token })).status).toBe(204);
    expect([...service.store.idempotencyRows.values()].map(({ answer }) => answer)).toEqual([DROPPED_ANSWER]);
  });
});

describe('the list of keys', () => {
  it('has the keys of the caller, and all keys for an admin, newest first in pages', async () => {
    const [admin, user] = [await service.member(owner.tenantId, 'admin'), await service.member(owner.tenantId, 'user')];
    const made: string[] = [];
    for (const token of [owner.token, user, admin, user]) {
      made.unshift((await newKey(token)).prefix);
      service.clock.advance(1);
    }
    await newKey((await service.owner()).token);
    const prefixes = async (token: string, query?: string) =>
      (await list(token, query)).body.keys.map(({ prefix }: { prefix: string }) => prefix);
    expect(await prefixes(user)).toEqual([made[0], made[2]]);
    expect(await prefixes(admin)).toEqual(made);
    const { body } = await list(admin, '?limit=3');
    expect(await prefixes(admin, `?limit=3&cursor=${body.next_cursor}`)).toEqual([made[3]]);
    expect(answer(await list(user, `?cursor=${body.next_cursor}`))).toEqual([400, 'VALIDATION_FAILED']);
    expect(await prefixes((await newKey(admin)).key)).toHaveLength(5);
  });

  it('shows the last use, which is written in batches', async () => {
    const { key, prefix } = await newKey();
    let writes = 0;
    const { flushUse } = service.store.keys;
    service.store.keys.flushUse = (uses) => {
      writes += 1;
      return flushUse(uses);
    };
    for (let n = 0; n < 5; n++) await me(key);
    service.clock.advance(1_000);
    await me(key);
    expect((await list(owner.token)).body.keys[0].last_used_at).toBe(new Date(service.clock.now()).toISOString());
    expect(service.store.apiKeys.get(prefix)?.lastUsedAt).toBeNull();
    await service.services.apiKeys.flush();
    await service.services.apiKeys.flush();
    expect(writes).toBe(1);
    expect(service.store.apiKeys.get(prefix)?.lastUsedAt).toBe(service.clock.now());
    expect((await list(owner.token)).body.keys[0].last_used_at).toBe(new Date(service.clock.now()).toISOString());
  });
});

describe('a request with a key', () => {
  it('needs no read to authenticate if nothing changed', async () => {
    const { key } = await newKey();
    await me(key);
    let calls = 0;
    const count =
      <Given extends unknown[], T>(work: (...given: Given) => T) =>
      (...given: Given) => {
        calls += 1;
        return work(...given);
      };
    for (const part of [service.store.keys, service.store.identity, service.store.members] as object[]) {
      for (const [name, verb] of Object.entries(part)) Object.assign(part, { [name]: count(verb) });
    }
    for (let n = 0; n < 20; n++) {
      await me(key);
      await service.call('GET', '/v1/homes', { token: key });
    }
    expect(calls).toBe(0);
  });

  it.each([
    ['another checksum', (key: string) => `${key.slice(0, -4)}AAAA`],
    ['another secret', (key: string) => withChecksum(`${key.slice(0, 13)}${'A'.repeat(43)}`)],
    ['another prefix', (key: string) => withChecksum(key.slice(0, -6).replace(/^twk_.{8}/, 'twk_zzzzzzzz'))],
    ['another form', (key: string) => key.slice(0, -6).replace('twk_', 'tk_')],
    ['a secret too short', (key: string) => key.slice(0, -1)],
    ['something after it', (key: string) => `${key}x`],
    ['its prefix alone', (key: string) => key.slice(0, 12)],
    ['its hash', (key: string) => service.store.apiKeys.get(key.slice(4, 12))?.hash ?? ''],
  ])('with %s is 401', async (_, change) => {
    const { key } = await newKey();
    await me(key);
    expect(answer(await me(change(key)))).toEqual([401, 'UNAUTHENTICATED']);
    expect((await me(key)).status).toBe(200);
  });

  it('with a guess leaves nothing in memory, and reads the store once for an existing prefix', async () => {
    const { key } = await newKey();
    let finds = 0;
    const { find } = service.store.keys;
    service.store.keys.find = (prefix) => {
      finds += 1;
      return find(prefix);
    };
    for (let n = 0; n < 10; n++) await me(key.slice(0, 13) + `${n}`.repeat(49));
    expect(finds).toBe(0);
    for (let n = 0; n < 10; n++) await me(withChecksum(key.slice(0, 13) + `${n}`.repeat(43)));
    expect(finds).toBe(1);
    for (let n = 0; n < 3; n++) await me(`tk_guess00${n}_${'A'.repeat(43)}`);
    await me(`tk_guess000_${'A'.repeat(43)}`);
    expect(finds).toBe(5);
  });

  it('of the form of earlier versions goes on working, and is rotated to the new one', async () => {
    const { key, row } = earlierApiKey({ tenantId: owner.tenantId, userId: owner.userId });
    await service.store.keys.insert(row);
    expect((await me(key)).body.user.id).toBe(owner.userId);
    expect(answer(await me(`${key.slice(0, -1)}_`))).toEqual([401, 'UNAUTHENTICATED']);
    const rotated = await post('/auth/api-keys/rotate', owner.token, { prefix: row.prefix });
    expect(rotated.body.key).toMatch(/^twk_/);
    expect(answer(await me(key))).toEqual([401, 'UNAUTHENTICATED']);
    expect((await me(rotated.body.key)).status).toBe(200);
  });

  it('is accepted until the moment the key expires', async () => {
    const expires_at = new Date(service.clock.now() + HOUR).toISOString();
    const { key } = await newKey(owner.token, { expires_at });
    expect((await me(key)).status).toBe(200);
    service.clock.advance(HOUR - 1);
    expect((await me(key)).status).toBe(200);
    service.clock.advance(1);
    expect((await me(key)).status).toBe(401);
    const { body } = await list(await service.token([...service.store.users.values()][0]?.sub ?? ''));
    expect(body.keys[0]).toMatchObject({ expires_at, revoked_at: null });
  });

  it('has the current role of its creator', async () => {
    const token = await service.member(owner.tenantId, 'admin');
    const { key } = await newKey(token);
    const { id } = (await me(key)).body.user;
    const change = (role: string) =>
      service.call('PATCH', `/v1/tenant/members/${id}`, { token: owner.token, body: { role } });
    expect((await post('/homes', key, { home_name: 'x' })).status).toBe(201);
    expect((await change('user')).status).toBe(200);
    expect(answer(await post('/homes', key, { home_name: 'x' }))).toEqual([403, 'FORBIDDEN_ROLE']);
    await change('owner');
    expect((await me(key)).body.user.role).toBe('admin');
  });

  it('is refused after its creator left the tenant, also when they return', async () => {
    const token = await service.member(owner.tenantId, 'user');
    const { key, prefix } = await newKey(token);
    const { id } = (await me(key)).body.user;
    await service.call('DELETE', `/v1/tenant/members/${id}`, { token: owner.token });
    expect((await me(token)).body.has_tenant).toBe(false);
    await service.updateUser(id, { tenantId: owner.tenantId, role: 'user' });
    expect((await me(key)).status).toBe(401);
    expect((await me(token)).body.has_tenant).toBe(true);
    const { keys } = (await list(owner.token)).body;
    expect(keys).toEqual([expect.objectContaining({ prefix, revoked_at: expect.any(String) })]);
  });
});
