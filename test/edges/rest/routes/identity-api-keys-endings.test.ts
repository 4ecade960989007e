import { describe, expect, it } from 'vitest';
import { answer, create, HOUR, list, me, newKey, owner, post, service, withOwner } from '../api-key-requests.ts';

withOwner();

describe('revoking a key', () => {
  const revoke = (token: string, prefix: unknown) => post('/auth/api-keys/revoke', token, { prefix });

  it('ends it at once and permanently, and confirms it', async () => {
    const [{ key, prefix }, other] = [await newKey(), await newKey()];
    await me(key);
    const { status, body } = await revoke(owner.token, prefix);
    expect([status, body]).toEqual([200, { status: 'revoked', prefix }]);
    expect((await me(key)).status).toBe(401);
    expect((await me(other.key)).status).toBe(200);
    const at = (await list(owner.token)).body.keys[1].revoked_at;
    service.clock.advance(5);
    expect((await revoke(owner.token, prefix)).status).toBe(200);
    expect((await list(owner.token)).body.keys[1].revoked_at).toBe(at);
  });

  it('ends a key that is being looked up', async () => {
    const { key, prefix } = await newKey();
    const { find } = service.store.keys;
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let requested = false;
    service.store.keys.find = async (...given) => {
      const row = await find(...given);
      if (!requested) {
        requested = true;
        await held;
      }
      return row;
    };
    const early = me(key);
    await expect.poll(() => requested).toBe(true);
    await revoke(owner.token, prefix);
    release();
    expect((await early).status).toBe(401);
    expect((await me(key)).status).toBe(401);
  });

  it('is possible for one’s own key, and for an admin', async () => {
    const [admin, user] = [await service.member(owner.tenantId, 'admin'), await service.member(owner.tenantId, 'user')];
    const [owners, users] = [await newKey(), await newKey(user)];
    expect(answer(await revoke(user, owners.prefix))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect((await me(owners.key)).status).toBe(200);
    expect((await revoke(user, users.prefix)).status).toBe(200);
    expect((await revoke(admin, owners.prefix)).status).toBe(200);
    expect((await me(owners.key)).status).toBe(401);
  });

  it('of another tenant is 404, as for an unknown one', async () => {
    const { key, prefix } = await newKey();
    const outsider = await service.owner();
    const [theirs, none] = [await revoke(outsider.token, prefix), await revoke(outsider.token, 'zzzzzzzz')];
    const { instance: _, request_id: __, ...sent } = theirs.body;
    expect(none.body).toMatchObject(sent);
    for (const wrong of [theirs, none, await revoke(owner.token, key), await revoke(owner.token, '')]) {
      expect(answer(wrong)).toEqual([404, 'NOT_FOUND']);
    }
    expect(answer(await revoke(owner.token, 7))).toEqual([400, 'VALIDATION_FAILED']);
    expect((await me(key)).status).toBe(200);
  });

  it('works during maintenance, unlike creating and rotating', async () => {
    const { prefix } = await newKey();
    await service.flags.set('maintenance_mode', true);
    expect(answer(await create(owner.token))).toEqual([503, 'MAINTENANCE']);
    expect(answer(await post('/auth/api-keys/rotate', owner.token, { prefix }))).toEqual([503, 'MAINTENANCE']);
    expect((await revoke(owner.token, prefix)).status).toBe(200);
  });
});

describe('rotating a key', () => {
  const rotate = (token: string, prefix: string, more: object = {}) =>
    post('/auth/api-keys/rotate', token, { prefix, ...more });

  it('returns a new prefix with the same name, scopes and expiry; the old key ends at once', async () => {
    const expires_at = new Date(service.clock.now() + HOUR).toISOString();
    const old = await newKey(owner.token, { scopes: ['read:homes'], expires_at });
    await me(old.key);
    service.clock.advance(1_000);
    const { status, body } = await rotate(owner.token, old.prefix);
    expect(status).toBe(200);
    expect(body).toEqual({
      status: 'rotated',
      key: expect.stringMatching(`^twk_${body.prefix}_[A-Za-z0-9]{49}$`),
      prefix: expect.not.stringMatching(old.prefix),
      name: 'build',
    });
    expect((await me(old.key)).status).toBe(401);
    expect((await me(body.key)).status).toBe(200);
    const [newer, older] = (await list(owner.token)).body.keys;
    expect(newer).toMatchObject({ prefix: body.prefix, scopes: ['read:homes'], expires_at, revoked_at: null });
    expect(older).toMatchObject({ prefix: old.prefix, revoked_at: newer.created_at });
  });

  it('with a grace keeps the old key valid until it ends, and shows its end', async () => {
    const old = await newKey(owner.token, { restrict_to: { actions: ['turn_on'] } });
    const end = service.clock.now() + HOUR;
    const { status, body } = await rotate(owner.token, old.prefix, { grace_s: 3600 });
    expect(status).toBe(200);
    for (const key of [old.key, body.key])
      expect((await me(key)).body).toMatchObject({ authenticated: true, restrict_to: { actions: ['turn_on'] } });
    const shown = (prefix: string) =>
      list(owner.token).then(({ body }) => body.keys.find((key: { prefix: string }) => key.prefix === prefix));
    const grace_until = new Date(end).toISOString();
    expect(await shown(old.prefix)).toMatchObject({ grace_until, expires_at: grace_until, revoked_at: null });
    expect(await shown(body.prefix)).toMatchObject({ grace_until: null, expires_at: null });
    service.clock.advance(HOUR - 1);
    expect((await me(old.key)).status).toBe(200);
    service.clock.advance(1);
    expect([(await me(old.key)).status, (await me(body.key)).status]).toEqual([401, 200]);
  });

  it('again ends the grace of the first key, and grace_until is then the time at which it ended', async () => {
    const first = await newKey();
    const second = (await rotate(owner.token, first.prefix, { grace_s: 86_400 })).body;
    expect(answer(await rotate(owner.token, first.prefix, { grace_s: 1 }))).toEqual([409, 'CONFLICT']);
    service.clock.advance(1_000);
    const third = (await rotate(owner.token, second.prefix, { grace_s: 60 })).body;
    const statuses = await Promise.all([first, second, third].map(({ key }) => me(key).then(({ status }) => status)));
    expect(statuses).toEqual([401, 200, 200]);
    const { keys } = (await list(owner.token)).body;
    const ended = keys.find(({ prefix }: { prefix: string }) => prefix === first.prefix);
    expect(ended.grace_until).toBe(new Date(service.clock.now()).toISOString());
    expect(ended.revoked_at).toBe(ended.grace_until);
  });

  it('and revoking the old key during its grace ends it', async () => {
    const old = await newKey();
    const { body } = await rotate(owner.token, old.prefix, { grace_s: 60 });
    await post('/auth/api-keys/revoke', owner.token, { prefix: old.prefix });
    expect([(await me(old.key)).status, (await me(body.key)).status]).toEqual([401, 200]);
    const { keys } = (await list(owner.token)).body;
    expect(keys.find(({ prefix }: { prefix: string }) => prefix === old.prefix).grace_until).toBe(
      new Date(service.clock.now()).toISOString(),
    );
  });

  it.each([-1, 86_401, 1.5, '60', null])('with the grace %j is 400', async (grace_s) => {
    const { prefix } = await newKey();
    expect(answer(await rotate(owner.token, prefix, { grace_s }))).toEqual([400, 'VALIDATION_FAILED']);
  });

  it('that is revoked or has expired is 409', async () => {
    const revoked = await newKey();
    await post('/auth/api-keys/revoke', owner.token, { prefix: revoked.prefix });
    expect(answer(await rotate(owner.token, revoked.prefix))).toEqual([409, 'CONFLICT']);
    const ending = await newKey(owner.token, { expires_at: new Date(service.clock.now() + 1_000).toISOString() });
    service.clock.advance(1_000);
    expect(answer(await rotate(owner.token, ending.prefix))).toEqual([409, 'CONFLICT']);
  });

  it('of another user by an admin makes it the admin’s own, with the former role at most', async () => {
    const admin = await service.member(owner.tenantId, 'admin');
    const viewer = await service.member(owner.tenantId, 'viewer');
    const old = await newKey(viewer);
    expect(answer(await rotate(viewer, (await newKey()).prefix))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(answer(await rotate(admin, old.prefix, { grace_s: 60 }))).toEqual([403, 'FORBIDDEN']);
    const { body } = await rotate(admin, old.prefix);
    const adminId = (await me(admin)).body.user.id;
    expect((await me(body.key)).body.user).toMatchObject({ id: adminId, role: 'viewer' });
    expect((await me(old.key)).status).toBe(401);
    const again = await rotate(admin, body.prefix);
    expect((await me(again.body.key)).body.user).toMatchObject({ id: adminId, role: 'viewer' });
  });
});
