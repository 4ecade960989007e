import { describe, expect, it } from 'vitest';
import { DataRefused, DROPPED_ANSWER, type Group, type Position } from '../../../src/store/contract.ts';
import { deviceCommit, idempotencyRow, newId, nextCommit, tenantCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';
import { holdNextTimer } from '../../support/timers.ts';

eachStore('plain records', (backend, has) => {
  const records = () => backend().store.records;
  const identity = () => backend().store.identity;
  const idempotency = () => backend().store.idempotency;
  const home = (tenantId: string, createdAt = 1) => ({
    id: newId(),
    tenantId,
    name: 'Home',
    timezone: 'Europe/Berlin',
    createdAt,
  });

  describe('homes', () => {
    it('are stored with the stored response, changed by member, and deleted', async () => {
      const one = home(newId());
      const also = idempotencyRow();
      await records().insertHome(one, also);
      expect(await idempotency().find(also)).toEqual(also);
      expect(await records().home(one.tenantId, one.id)).toEqual(one);
      expect(await records().home(newId(), one.id)).toBeNull();
      expect(await records().updateHome(one.tenantId, one.id, { name: 'Hut' })).toEqual({ ...one, name: 'Hut' });
      expect(await records().updateHome(one.tenantId, one.id, { timezone: null })).toEqual({
        ...one,
        name: 'Hut',
        timezone: null,
      });
      expect(await records().updateHome(newId(), one.id, { name: 'Mine' })).toBeNull();
      expect(await records().deleteHome(newId(), one.id)).toBe(false);
      expect(await records().deleteHome(one.tenantId, one.id)).toBe(true);
      expect(await records().deleteHome(one.tenantId, one.id)).toBe(false);
    });

    it('that are refused leave no stored response', async () => {
      const one = home(newId());
      await records().insertHome(one);
      const also = idempotencyRow();
      await expect(records().insertHome(one, also)).rejects.toBeInstanceOf(DataRefused);
      expect(await idempotency().find(also)).toBeNull();
    });

    it('are listed newest first in pages', async () => {
      const tenantId = newId();
      const homes = Array.from({ length: 5 }, (_, n) => home(tenantId, n));
      for (const one of homes) await records().insertHome(one);
      const first = await records().homes(tenantId, 3);
      expect(first.items.map((one) => one.createdAt)).toEqual([4, 3, 2]);
      expect(first.positions()).toEqual(first.items.map(({ createdAt, id }) => ({ createdAt, id })));
      const second = await records().homes(tenantId, 3, first.next as Position);
      expect(second.items.map((one) => one.createdAt)).toEqual([1, 0]);
      expect(second.next).toBeNull();
    });
  });

  it('rooms belong to a home and are deleted with it', async () => {
    const inHome = home(newId());
    const { tenantId, id: homeId } = inHome;
    await records().insertHome(inHome);
    const rooms = [1, 2, 3].map((createdAt) => ({ id: newId(), tenantId, homeId, name: 'Room', createdAt }));
    for (const room of rooms) await records().insertRoom(room);
    const [first] = rooms;
    if (!first) throw new Error('no room');
    expect(await records().room(tenantId, first.id)).toEqual(first);
    expect((await records().rooms(tenantId, homeId, 2)).items.map((room) => room.createdAt)).toEqual([3, 2]);
    expect(await records().deleteRoom(tenantId, newId(), first.id)).toBe(false);
    expect(await records().deleteRoom(tenantId, homeId, first.id)).toBe(true);
    await expect(records().insertRoom({ ...first, homeId: newId() })).rejects.toBeInstanceOf(DataRefused);
    await records().deleteHome(tenantId, homeId);
    expect((await records().rooms(tenantId, homeId, 9)).items).toEqual([]);
  });

  it('homes and rooms are found by many ids at once, without those of another tenant', async () => {
    const [one, two, foreign] = [home(newId(), 1), home(newId(), 2), home(newId(), 3)];
    two.tenantId = one.tenantId;
    for (const each of [one, two, foreign]) await records().insertHome(each);
    const rooms = [one, two, foreign].flatMap(({ tenantId, id: homeId }) =>
      [1, 2, 3].map((createdAt) => ({ id: newId(), tenantId, homeId, name: 'Room', createdAt })),
    );
    for (const room of rooms) await records().insertRoom(room);
    const homeIds = [one.id, two.id, foreign.id, newId()];
    const homes = await records().findHomes(one.tenantId, homeIds);
    expect(homes.map(({ id }) => id).sort()).toEqual([one.id, two.id].sort());
    const found = await records().findRooms(
      one.tenantId,
      rooms.map(({ id }) => id),
    );
    expect(found.map(({ id }) => id).sort()).toEqual(
      rooms
        .slice(0, 6)
        .map(({ id }) => id)
        .sort(),
    );
    const newest = await records().roomsOf(one.tenantId, homeIds, 2);
    for (const { id } of [one, two]) {
      expect(newest.filter(({ homeId }) => homeId === id).map(({ createdAt }) => createdAt)).toEqual([3, 2]);
    }
    expect(newest).toHaveLength(4);
  });

  describe('groups', () => {
    const group = (tenantId: string, more: Partial<Group> = {}): Group => ({
      tenantId,
      slug: 'lights',
      name: 'Lights',
      description: null,
      deviceIds: [],
      createdAt: 1,
      ...more,
    });
    const device = async (tenantId: string) => {
      const commit = deviceCommit({ tenantId });
      await backend().store.actors.commit([commit]);
      return commit;
    };

    it('have a unique slug within the tenant', async () => {
      const one = group(newId());
      const also = idempotencyRow();
      expect(await records().insertGroup(one)).toBe(true);
      expect(await records().insertGroup(one, also)).toBe(false);
      expect(await idempotency().find(also)).toBeNull();
      expect(await records().insertGroup(group(newId()))).toBe(true);
    });

    it('can be joined once, and left', async () => {
      const tenantId = newId();
      const [a, b] = [await device(tenantId), await device(tenantId)];
      const ids = [a.ref.id, b.ref.id].sort();
      await records().insertGroup(group(tenantId, { deviceIds: [a.ref.id] }));
      const also = idempotencyRow();
      expect((await records().joinGroup(tenantId, 'lights', ids, also))?.deviceIds).toEqual(ids);
      expect(await idempotency().find(also)).toEqual(also);
      expect(await records().joinGroup(tenantId, 'none', ids)).toBeNull();
      expect(await records().leaveGroup(tenantId, 'lights', a.ref.id)).toBe(true);
      expect(await records().leaveGroup(tenantId, 'lights', a.ref.id)).toBe(false);
      expect((await records().group(tenantId, 'lights'))?.deviceIds).toEqual([b.ref.id]);
      expect(await records().group(newId(), 'lights')).toBeNull();
      expect(await records().deleteGroup(tenantId, 'lights')).toBe(true);
      expect(await records().group(tenantId, 'lights')).toBeNull();
    });

    it('contain no deleted device', async () => {
      const tenantId = newId();
      const commit = await device(tenantId);
      await records().insertGroup(group(tenantId, { deviceIds: [commit.ref.id] }));
      const gone = nextCommit(commit, { columns: { ...commit.columns, revoked: true, deleted: true } });
      await backend().store.actors.commit([gone]);
      expect((await records().group(tenantId, 'lights'))?.deviceIds).toEqual([]);
    });

    it('are listed newest first in pages, by slug for equal times', async () => {
      const tenantId = newId();
      for (const slug of ['a', 'b', 'c', 'd']) await records().insertGroup(group(tenantId, { slug, createdAt: 5 }));
      await records().insertGroup(group(tenantId, { slug: 'z', createdAt: 9 }));
      const first = await records().groups(tenantId, 2);
      expect(first.items.map((one) => one.slug)).toEqual(['z', 'd']);
      const second = await records().groups(tenantId, 9, first.next as Position);
      expect(second.items.map((one) => one.slug)).toEqual(['c', 'b', 'a']);
    });
  });

  describe('users', () => {
    const claims = (more: object = {}) => ({
      id: newId(),
      iss: 'urn:test',
      sub: newId(),
      email: 'a@example.org',
      emailVerified: true,
      createdAt: 5,
      ...more,
    });

    it('are created without a tenant on first use, and found again', async () => {
      const one = claims();
      const user = await identity().upsertUser(one);
      expect(user).toEqual({ ...one, tenantId: null, role: 'none', notBefore: null });
      expect(await identity().upsertUser({ ...one, id: newId() })).toEqual(user);
      expect(await identity().user(user.id)).toEqual(user);
      expect(await identity().user(newId())).toBeNull();
      expect(await identity().userBySubject(one.iss, one.sub)).toEqual(user);
      expect(await identity().userBySubject('urn:other', one.sub)).toBeNull();
      expect((await identity().upsertUser({ ...one, id: newId(), iss: 'urn:other' })).id).not.toBe(user.id);
    });

    it('are created once by two concurrent requests', async () => {
      const one = claims();
      const users = await Promise.all(Array.from({ length: 5 }, () => identity().upsertUser({ ...one, id: newId() })));
      expect(new Set(users.map((user) => user.id)).size).toBe(1);
    });

    it('keep a changed verified email address, and ignore an unverified one', async () => {
      const one = claims();
      await identity().upsertUser(one);
      expect((await identity().upsertUser({ ...one, email: 'b@example.org' })).email).toBe('b@example.org');
      const unverified = await identity().upsertUser({ ...one, email: 'c@example.org', emailVerified: false });
      expect(unverified).toMatchObject({ email: 'b@example.org', emailVerified: true });
    });

    it('get a slug once', async () => {
      const tenant = tenantCommit();
      expect(await identity().slugTaken(String(tenant.columns.slug))).toBe(false);
      await backend().store.actors.commit([tenant]);
      expect(await identity().slugTaken(String(tenant.columns.slug))).toBe(true);
    });

    it('log out: a token stays revoked until it expires', async () => {
      const jti = newId();
      await identity().revokeToken(jti, 100);
      await identity().revokeToken(jti, 50);
      const listed = async (now: number) => (await identity().revokedTokens(now)).filter((token) => token.jti === jti);
      expect(await listed(99)).toEqual([{ jti, expiresAt: 100 }]);
      expect(await listed(100)).toEqual([]);
    });
  });

  describe('stored responses', () => {
    it('are identified by principal, method, path and key', async () => {
      const row = idempotencyRow();
      await idempotency().put(row);
      expect(await idempotency().find(row)).toEqual(row);
      for (const other of [{ principal: newId() }, { method: 'PUT' }, { path: '/homes' }, { key: 'x' }]) {
        expect(await idempotency().find({ ...row, ...other })).toBeNull();
      }
    });

    it('replace the row that their request found under the key', async () => {
      const row = idempotencyRow({ state: 'running' });
      await idempotency().put(row);
      const later = { ...row, state: 'done' as const, answer: 'other', bodyHash: 'b'.repeat(64), expiresAt: 7 };
      await idempotency().put({ ...later, replaces: row.answer });
      expect(await idempotency().find(row)).toEqual(later);
    });

    it('accept a path and key of any length', async () => {
      const row = idempotencyRow({ path: `/${'p'.repeat(8_000)}`, key: 'k'.repeat(255) });
      await idempotency().put(row);
      expect(await idempotency().find(row)).toEqual(row);
    });

    it('lose their response with the secret of their device, and stay', async () => {
      const deviceId = newId();
      const row = idempotencyRow({ subject: deviceId });
      const other = idempotencyRow({ subject: newId() });
      await idempotency().put(row);
      await idempotency().put(other);
      await idempotency().dropFor(deviceId);
      expect(await idempotency().find(row)).toEqual({ ...row, answer: DROPPED_ANSWER });
      expect(await idempotency().find(other)).toEqual(other);
    });
  });

  it('answers a ping in time', async () => {
    await backend().store.ping(5_000);
  });

  it.runIf(has.sql)('is not reported as silent while it answers other statements', async () => {
    const { store, database } = backend();
    await store.ping(5_000);
    const others = Array.from({ length: 40 }, () => database.read({ text: 'select pg_sleep(0.01)' }));
    const timer = holdNextTimer();
    const pinged = store.ping(300);
    await others[0];
    timer.expire();
    await pinged;
    await Promise.all(others);
  });
});
