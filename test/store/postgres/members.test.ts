import { describe, expect, it } from 'vitest';
import { type ApiKey, type Invitation, keySubject } from '../../../src/store/contract/members.ts';
import { DROPPED_ANSWER, type Position, type User } from '../../../src/store/contract.ts';
import { deviceCommit, idempotencyRow, newId, tenantCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const NOW = 1_000_000;
const DAY = 86_400_000;

let made = 0;
const prefixOf = (n: number): string => n.toString(36).padStart(8, '0');

eachStore('members and keys', (backend, has) => {
  const keys = () => backend().store.keys;
  const members = () => backend().store.members;
  const store = () => backend().store;

  /** A user, in a tenant unless the role is `none`. */
  async function somebody(tenantId: string, role: User['role'], email: string | null = null): Promise<User> {
    const subject = { iss: 'urn:test', sub: newId(), email, emailVerified: email !== null };
    const user = await store().identity.upsertUser({ id: newId(), ...subject, createdAt: 500 + made++ });
    if (role === 'none') return user;
    const rows = [{ type: 'member.bind' as const, userId: user.id, tenantId, role }];
    await store().actors.commit([deviceCommit({ rows })]);
    return { ...user, tenantId, role };
  }

  async function newKey(more: Partial<ApiKey> = {}): Promise<ApiKey> {
    const tenantId = more.tenantId ?? newId();
    const key: ApiKey = {
      prefix: prefixOf(++made),
      tenantId,
      userId: more.userId ?? (await somebody(tenantId, 'user')).id,
      name: 'build',
      hash: 'h'.repeat(43),
      scopes: ['read:devices', '*:homes'],
      roleCap: 'admin',
      createdAt: 1_000 + made,
      lastUsedAt: null,
      expiresAt: null,
      revokedAt: null,
      restriction: null,
      ...{ graceUntil: null, replacedBy: null, replaces: null },
      ...more,
    };
    await keys().insert(key);
    return key;
  }

  const invitation = (tenantId: string, invitedBy: string, more: Partial<Invitation> = {}): Invitation => ({
    id: newId(),
    tenantId,
    email: `${newId()}@example.com`,
    role: 'user',
    invitedBy,
    createdAt: 2_000 + made++,
    expiresAt: NOW + 1_000,
    ...more,
  });

  /** A tenant with the fields that invitations show. */
  async function tenant(name: string): Promise<string> {
    const commit = tenantCommit({ columns: { name } });
    await store().actors.commit([commit]);
    return commit.ref.id;
  }

  describe('API keys', () => {
    it('are found by their prefix unchanged, with their stored response', async () => {
      const key = await newKey({ expiresAt: 5_000 });
      expect(await keys().find(key.prefix)).toEqual(key);
      expect(await keys().find('zzzzzzzz')).toBeNull();
      const other = { ...key, prefix: prefixOf(++made), scopes: [] };
      const also = idempotencyRow({ subject: keySubject(other.prefix) });
      await keys().insert(other, also);
      expect(await keys().find(other.prefix)).toEqual(other);
      expect(await store().idempotency.find(also)).toEqual(also);
    });

    it('are listed newest first in pages, for all users or for one', async () => {
      const tenantId = newId();
      const ada = await somebody(tenantId, 'user');
      const bob = await somebody(tenantId, 'user');
      const all: ApiKey[] = [];
      for (const user of [ada, bob, ada, ada]) all.push(await newKey({ tenantId, userId: user.id, createdAt: 7 }));
      await newKey();
      const first = await keys().list(tenantId, null, 3);
      const second = await keys().list(tenantId, null, 3, first.next as Position);
      expect([...first.items, ...second.items]).toEqual(all.toReversed());
      expect(second.next).toBeNull();
      expect((await keys().list(tenantId, bob.id, 3)).items).toEqual([all[1]]);
    });

    it('are returned while they are valid', async () => {
      const key = await newKey();
      const { tenantId, userId } = key;
      await newKey({ tenantId, userId, expiresAt: NOW });
      const ending = await newKey({ tenantId, userId, expiresAt: NOW + 1 });
      await newKey({ tenantId, userId, revokedAt: 3 });
      expect((await keys().live(userId, NOW)).sort()).toEqual([key.prefix, ending.prefix].sort());
    });

    it.runIf(has.sql)('are read on the connection of device sign-ins', async () => {
      const { database, store } = backend();
      const session = async () =>
        (await database.read<{ pid: number }>({ text: 'select pg_backend_pid() as pid' }))[0]?.pid;
      const before = await session();
      await store.devices.validKeys([newId()]);
      await keys().live(newId(), NOW);
      expect(await session()).toBe(before);
    });

    it('keep the time of their first revocation, and their stored responses are dropped', async () => {
      const key = await newKey();
      const answer = idempotencyRow({ subject: keySubject(key.prefix) });
      const other = idempotencyRow({ subject: keySubject('another0') });
      await store().idempotency.put(answer);
      await store().idempotency.put(other);
      const also = idempotencyRow();
      await keys().revoke(key.prefix, 10, also);
      await keys().revoke(key.prefix, 20);
      expect((await keys().find(key.prefix))?.revokedAt).toBe(10);
      expect(await store().idempotency.find(answer)).toEqual({ ...answer, answer: DROPPED_ANSWER });
      expect(await store().idempotency.find(other)).toEqual(other);
      expect(await store().idempotency.find(also)).toEqual(also);
    });

    it('can be replaced once', async () => {
      const key = await newKey();
      const answer = idempotencyRow({ subject: keySubject(key.prefix) });
      await store().idempotency.put(answer);
      const next = { ...key, prefix: prefixOf(++made), createdAt: 50 };
      const also = idempotencyRow({ subject: keySubject(next.prefix) });
      expect(await keys().replace(key.prefix, next, null, also)).toEqual({ ended: null });
      expect((await keys().find(key.prefix))?.revokedAt).toBe(50);
      expect(await keys().find(next.prefix)).toEqual(next);
      expect(await store().idempotency.find(answer)).toEqual({ ...answer, answer: DROPPED_ANSWER });
      expect(await store().idempotency.find(also)).toEqual(also);
      const third = { ...key, prefix: prefixOf(++made) };
      expect(await keys().replace(key.prefix, third, null, idempotencyRow())).toBe(false);
      expect(await keys().find(third.prefix)).toBeNull();
    });

    it('can be replaced with a grace, which the next replacement ends', async () => {
      const key = await newKey();
      const next = { ...key, prefix: prefixOf(++made), createdAt: 50, replaces: key.prefix };
      expect(await keys().replace(key.prefix, next, 90)).toEqual({ ended: null });
      const old = { ...key, expiresAt: 90, graceUntil: 90, replacedBy: next.prefix };
      expect(await keys().find(key.prefix)).toEqual(old);
      expect(await keys().find(next.prefix)).toEqual(next);
      const third = { ...next, prefix: prefixOf(++made), createdAt: 60, replaces: null };
      expect(await keys().replace(key.prefix, third, 95)).toBe(false);
      expect(await keys().replace(next.prefix, third, null)).toEqual({ ended: key.prefix });
      expect(await keys().find(key.prefix)).toEqual({ ...old, revokedAt: 60 });
      expect(await keys().find(next.prefix)).toEqual({ ...next, revokedAt: 60 });
    });

    it('expire before the end of their grace if their own expiry is earlier', async () => {
      const key = await newKey({ expiresAt: 70 });
      const next = { ...key, prefix: prefixOf(++made), createdAt: 50, replaces: key.prefix };
      await keys().replace(key.prefix, next, 90);
      expect(await keys().find(key.prefix)).toMatchObject({ expiresAt: 70, graceUntil: 90 });
    });

    it('store their last use, never an older one', async () => {
      const [one, two] = [await newKey(), await newKey()];
      await keys().flushUse([
        { prefix: one.prefix, usedAt: 30 },
        { prefix: two.prefix, usedAt: 40 },
        { prefix: 'zzzzzzzz', usedAt: 1 },
      ]);
      await keys().flushUse([{ prefix: one.prefix, usedAt: 20 }]);
      await keys().flushUse([]);
      expect((await keys().find(one.prefix))?.lastUsedAt).toBe(30);
      expect((await keys().find(two.prefix))?.lastUsedAt).toBe(40);
    });

    it('are pruned long after their end', async () => {
      const now = 400 * 86_400_000;
      const old = await newKey({ revokedAt: 1 });
      const expired = await newKey({ expiresAt: 1 });
      const alive = await newKey({ createdAt: 1 });
      await store().retention.prune(now, { commands: 90, journal: 365 }, 10);
      expect(await keys().find(old.prefix)).toBeNull();
      expect(await keys().find(expired.prefix)).toBeNull();
      expect(await keys().find(alive.prefix)).toEqual(alive);
    });
  });

  describe('members', () => {
    it('include the users of the tenant and the invited, newest first in pages', async () => {
      const tenantId = newId();
      const owner = await somebody(tenantId, 'owner', 'o@example.com');
      const user = await somebody(tenantId, 'user');
      const requested = invitation(tenantId, owner.id, { role: 'admin' });
      await members().invite(requested);
      await somebody(newId(), 'owner');
      const first = await members().list(tenantId, NOW, 2);
      const second = await members().list(tenantId, NOW, 2, first.next as Position);
      expect([...first.items, ...second.items].map(({ id, role, status }) => [id, role, status])).toEqual([
        [requested.id, 'admin', 'invited'],
        [user.id, 'user', 'active'],
        [owner.id, 'owner', 'active'],
      ]);
      expect(await members().find(tenantId, requested.id, NOW)).toMatchObject({
        status: 'invited',
        email: requested.email,
      });
      expect(await members().find(tenantId, user.id, NOW)).toMatchObject({ status: 'active', email: null });
      expect(await members().find(newId(), user.id, NOW)).toBeNull();
      expect(await members().byEmail(tenantId, 'O@Example.COM', NOW)).toMatchObject({ id: owner.id });
      expect(await members().byEmail(tenantId, requested.email.toUpperCase(), NOW)).toMatchObject({ id: requested.id });
      expect(await members().countInvited(tenantId, NOW)).toBe(1);
      expect(await members().countOwners(tenantId)).toBe(1);
    });

    it('change their role in their tenant only', async () => {
      const tenantId = newId();
      const user = await somebody(tenantId, 'user');
      await members().setRole(newId(), user.id, 'owner');
      expect((await store().identity.user(user.id))?.role).toBe('user');
      await members().setRole(tenantId, user.id, 'admin');
      expect((await store().identity.user(user.id))?.role).toBe('admin');
    });

    it('that are removed have no tenant, no valid key there, and no stored response that shows one', async () => {
      const tenantId = newId();
      const user = await somebody(tenantId, 'user');
      const key = await newKey({ tenantId, userId: user.id });
      const dead = await newKey({ tenantId, userId: user.id, revokedAt: 4 });
      const others = await newKey({ tenantId });
      const answer = idempotencyRow({ subject: keySubject(key.prefix) });
      await store().idempotency.put(answer);
      await members().remove(newId(), user.id, 80);
      expect((await store().identity.user(user.id))?.tenantId).toBe(tenantId);
      await members().remove(tenantId, user.id, 90);
      expect(await store().identity.user(user.id)).toMatchObject({ tenantId: null, role: 'none' });
      expect((await keys().find(key.prefix))?.revokedAt).toBe(90);
      expect((await keys().find(dead.prefix))?.revokedAt).toBe(4);
      expect((await keys().find(others.prefix))?.revokedAt).toBeNull();
      expect(await store().idempotency.find(answer)).toEqual({ ...answer, answer: DROPPED_ANSWER });
      await members().remove(tenantId, user.id, 91);
      expect((await keys().find(key.prefix))?.revokedAt).toBe(90);
    });
  });

  describe('an invitation', () => {
    it('is found by its address, ignoring the case of ASCII letters', async () => {
      const tenantId = await tenant('Lakeside');
      const owner = await somebody(tenantId, 'owner');
      const name = newId();
      const requested = invitation(tenantId, owner.id, { email: `${name}.Kim@Example.com` });
      await members().invite(requested);
      const found = await members().invitationsFor(`${name}.KIM@example.COM`, NOW, 10);
      expect(found).toEqual([{ ...requested, tenantName: 'Lakeside' }]);
      // The Kelvin sign is not the letter K.
      expect(await members().invitationsFor(`${name}.\u212aim@example.com`, NOW, 10)).toEqual([]);
    });

    it('replaces an older one of the same address and deletes its stored response', async () => {
      const tenantId = await tenant('Lakeside');
      const owner = await somebody(tenantId, 'owner');
      const first = invitation(tenantId, owner.id);
      const second = invitation(tenantId, owner.id, { email: first.email.toUpperCase(), role: 'viewer' });
      const also = idempotencyRow();
      await members().invite(first);
      await members().invite(second, also);
      expect(await members().invitation(first.id, NOW)).toBeNull();
      expect(await members().invitation(second.id, NOW)).toEqual(second);
      expect(await store().idempotency.find(also)).toEqual(also);
    });

    it('binds a user without a tenant once, and is deleted then', async () => {
      const tenantId = newId();
      const owner = await somebody(tenantId, 'owner');
      const requested = invitation(tenantId, owner.id, { role: 'admin' });
      await members().invite(requested);
      const taken = await somebody(newId(), 'user');
      const lost = idempotencyRow();
      expect(await members().accept(requested, taken.id, NOW, lost)).toBe(false);
      expect(await store().idempotency.find(lost)).toBeNull();
      const [ada, bob] = [await somebody('', 'none'), await somebody('', 'none')];
      const also = idempotencyRow();
      const accepted = await Promise.all([ada, bob].map(({ id }) => members().accept(requested, id, NOW, also)));
      expect(accepted.filter(Boolean)).toHaveLength(1);
      const users = await Promise.all([ada, bob].map(({ id }) => store().identity.user(id)));
      expect(users.filter((user) => user?.tenantId === tenantId)).toEqual([expect.objectContaining({ role: 'admin' })]);
      expect(await members().invitation(requested.id, NOW)).toBeNull();
    });

    it('is invalid after its expiry, or when its creator lost the permission', async () => {
      const tenantId = await tenant('Lakeside');
      const admin = await somebody(tenantId, 'admin');
      const newUser = await somebody('', 'none');
      const requested = invitation(tenantId, admin.id, { role: 'admin' });
      await members().invite(requested);
      const seen = async (now = NOW) => [
        (await members().invitation(requested.id, now)) !== null,
        (await members().invitationsFor(requested.email, now, 5)).length,
        (await members().list(tenantId, now, 50)).items.filter(({ status }) => status === 'invited').length,
      ];
      expect(await seen(requested.expiresAt - 1)).toEqual([true, 1, 1]);
      expect(await seen(requested.expiresAt)).toEqual([false, 0, 0]);
      for (const role of ['user', 'viewer'] as const) {
        await members().setRole(tenantId, admin.id, role);
        expect(await seen()).toEqual([false, 0, 0]);
        expect(await members().accept(requested, newUser.id, NOW)).toBe(false);
      }
      await members().remove(tenantId, admin.id, 1);
      expect(await seen()).toEqual([false, 0, 0]);
    });

    it('offers the role it was changed to, and disappears when it is revoked', async () => {
      const tenantId = newId();
      const [owner, admin] = [await somebody(tenantId, 'owner'), await somebody(tenantId, 'admin')];
      const requested = invitation(tenantId, admin.id);
      await members().invite(requested);
      await members().updateInvitation(requested.id, 'owner', owner.id);
      expect(await members().invitation(requested.id, NOW)).toEqual({
        ...requested,
        role: 'owner',
        invitedBy: owner.id,
      });
      await members().deleteInvitation(requested.id);
      expect(await members().invitation(requested.id, NOW)).toBeNull();
    });

    it('is pruned after its expiry', async () => {
      const tenantId = newId();
      const owner = await somebody(tenantId, 'owner');
      const requested = invitation(tenantId, owner.id, { expiresAt: 10 });
      await members().invite(requested);
      await store().retention.prune(20, { commands: 1, journal: 1 }, 10);
      expect(await members().invitation(requested.id, 5)).toBeNull();
    });
  });

  it('presented agent tokens are stored until they expire, and pruned a day later', async () => {
    const { identity } = store();
    const [one, two] = [
      { digest: 'one', expiresAt: 100, userId: newId() },
      { digest: 'two', expiresAt: 300, userId: null },
    ];
    await identity.markAgentToken(one);
    await identity.markAgentToken({ ...one, expiresAt: 50 });
    await identity.markAgentToken({ ...one, userId: null });
    await identity.markAgentToken(two);
    expect(await identity.agentTokens(99)).toEqual(expect.arrayContaining([one, two]));
    expect(await identity.agentTokens(100)).toEqual([two]);
    await store().retention.prune(100 + DAY, { commands: 1, journal: 1 }, 10);
    expect(await identity.agentTokens(0)).toHaveLength(2);
    await store().retention.prune(101 + DAY, { commands: 1, journal: 1 }, 10);
    expect(await identity.agentTokens(0)).toEqual([two]);
  });
});
