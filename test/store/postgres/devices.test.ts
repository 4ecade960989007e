import { describe, expect, it } from 'vitest';
import type { Position } from '../../../src/store/contract.ts';
import { deviceCommit, newId, nextCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

eachStore('devices', (backend) => {
  const devices = () => backend().store.devices;
  const commitAll = (...actors: ReturnType<typeof deviceCommit>[]) => backend().store.actors.commit(actors);
  const made = async (tenantId: string, ...columns: Parameters<typeof deviceCommit>[0][]) => {
    const commits = columns.map((given) => deviceCommit({ tenantId, ...given }));
    await commitAll(...commits);
    return commits.map((commit) => commit.ref.id);
  };

  it('are listed with all listed fields', async () => {
    const tenantId = newId();
    const [homeId, roomId] = [newId(), newId()];
    const [id = ''] = await made(tenantId, {
      fixed: { name: 'Lamp' },
      columns: { home_id: homeId, room_id: roomId, firmware: '1.2.0', online: true, created_at: 7 },
    });
    await devices().flushPresence([{ deviceId: id, lastSeen: 99, battery: 55.5 }]);
    const expected = {
      id,
      name: 'Lamp',
      deviceType: 'smart_light',
      category: 'light',
      homeId,
      roomId,
      firmware: '1.2.0',
      revoked: false,
      online: true,
      lastSeen: 99,
      battery: 55.5,
      createdAt: 7,
      tags: [],
    };
    expect(await devices().list(tenantId, {}, 10)).toMatchObject({ items: [expected], next: null });
    expect(await devices().find(tenantId, [id, newId()])).toEqual([expected]);
    expect(await devices().find(newId(), [id])).toEqual([]);
    expect(await devices().find(tenantId, [])).toEqual([]);
  });

  it('are listed newest first, in pages that neither repeat nor miss one during insertions', async () => {
    const tenantId = newId();
    // Many with the same creation time: only the id distinguishes them.
    const ids = await made(tenantId, ...Array.from({ length: 23 }, (_, n) => ({ columns: { created_at: n >> 3 } })));
    const seen: string[] = [];
    let after: Position | undefined;
    do {
      const page = await devices().list(tenantId, {}, 5, after);
      seen.push(...page.items.map((device) => device.id));
      after = page.next ?? undefined;
      await made(tenantId, { columns: { created_at: 1_000 } });
    } while (after);
    expect(new Set(seen).size).toBe(seen.length);
    expect(new Set(seen)).toEqual(new Set(ids));
    const { items } = await devices().list(tenantId, {}, 200);
    const order = items.map(({ createdAt, id }) => [createdAt, id] as const);
    expect(order).toEqual([...order].sort(([a, x], [b, y]) => b - a || (x < y ? 1 : -1)));
  });

  it('are filtered by home, room, type, link and revocation, also in combination', async () => {
    const tenantId = newId();
    const [homeId, roomId] = [newId(), newId()];
    const [inRoom = '', inHome = '', lock = '', online = '', revoked = ''] = await made(
      tenantId,
      { columns: { home_id: homeId, room_id: roomId } },
      { columns: { home_id: homeId } },
      { columns: { device_type: 'smart_lock' } },
      { columns: { online: true } },
      { columns: { revoked: true } },
    );
    const listed = async (filter: Parameters<ReturnType<typeof devices>['list']>[1]) =>
      new Set((await devices().list(tenantId, filter, 10)).items.map((device) => device.id));
    expect(await listed({ homeId })).toEqual(new Set([inRoom, inHome]));
    expect(await listed({ roomId })).toEqual(new Set([inRoom]));
    expect(await listed({ deviceType: 'smart_lock' })).toEqual(new Set([lock]));
    expect(await listed({ online: true })).toEqual(new Set([online]));
    expect(await listed({ revoked: true })).toEqual(new Set([revoked]));
    expect(await listed({ homeId, roomId, online: false, revoked: false, deviceType: 'smart_light' })).toEqual(
      new Set([inRoom]),
    );
    expect(await listed({ homeId, online: true })).toEqual(new Set());
  });

  it('are activated under a lock, which returns the result or the error', async () => {
    const count = () => devices().countActive();
    expect(await devices().withActivationLock(count)).toBe(await count());
    const fails = () => Promise.reject(new Error('refused'));
    await expect(devices().withActivationLock(fails)).rejects.toThrow('refused');
    expect(await devices().withActivationLock(async () => 1)).toBe(1);
  });

  it('are counted including revoked ones, without deleted ones', async () => {
    const tenantId = newId();
    const homeId = newId();
    const before = await devices().countActive();
    await made(
      tenantId,
      { columns: { home_id: homeId } },
      { columns: { home_id: homeId, revoked: true } },
      { columns: { home_id: homeId, revoked: true, deleted: true } },
    );
    expect(await devices().count(tenantId)).toBe(2);
    expect(await devices().countActive()).toBe(before + 1);
    expect(await devices().countActiveInHome(tenantId, homeId)).toBe(1);
    expect(await devices().countActiveInHome(newId(), homeId)).toBe(0);
    expect(await devices().placedIn(tenantId, { homeId })).toHaveLength(2);
  });

  it('are counted exactly after each insertion or deletion', async () => {
    const tenantId = newId();
    const counted: number[] = [await devices().count(tenantId)];
    const commit = deviceCommit({ tenantId });
    for (const one of [
      commit,
      deviceCommit({ tenantId }),
      nextCommit(commit, { columns: { ...commit.columns, deleted: true } }),
    ]) {
      const requested = devices().count(tenantId);
      await commitAll(one);
      await requested;
      counted.push(await devices().count(tenantId));
    }
    expect(counted).toEqual([0, 1, 2, 1]);
  });

  it('of a room are all that are not deleted, revoked ones last, optionally by category', async () => {
    const tenantId = newId();
    const roomId = newId();
    const [light = '', lock = '', revoked = ''] = await made(
      tenantId,
      { columns: { room_id: roomId, created_at: 1 } },
      { columns: { room_id: roomId, category: 'lock', created_at: 2 } },
      { columns: { room_id: roomId, revoked: true, created_at: 0 } },
      {},
    );
    expect(await devices().inRoom(tenantId, roomId)).toEqual([light, lock, revoked]);
    expect(await devices().inRoom(tenantId, roomId, 'lock')).toEqual([lock]);
    expect(await devices().inRoom(newId(), roomId)).toEqual([]);
    expect(new Set(await devices().placedIn(tenantId, { roomId }))).toHaveLength(3);
  });

  it('that are deleted are not listed or counted', async () => {
    const tenantId = newId();
    const roomId = newId();
    const commit = deviceCommit({ tenantId, columns: { room_id: roomId, online: true } });
    await commitAll(commit);
    expect(await devices().online()).toContain(commit.ref.id);
    await commitAll(nextCommit(commit, { columns: { ...commit.columns, revoked: true, deleted: true } }));
    expect(await devices().list(tenantId, {}, 10)).toMatchObject({ items: [], next: null });
    expect(await devices().find(tenantId, [commit.ref.id])).toEqual([]);
    expect(await devices().count(tenantId)).toBe(0);
    expect(await devices().inRoom(tenantId, roomId)).toEqual([]);
    expect(await devices().online()).not.toContain(commit.ref.id);
    expect(await devices().states(tenantId)).toEqual([]);
  });

  it('have their complete reported states', async () => {
    const tenantId = newId();
    const [a = '', b = ''] = await made(
      tenantId,
      { live: { state: { on: true, deep: { a: [1] } }, stateVersion: 4, reportedAt: 12 } },
      { live: { state: {}, stateVersion: 0, reportedAt: null } },
    );
    const states = await devices().states(tenantId);
    expect(states).toHaveLength(2);
    expect(states).toContainEqual({
      deviceId: a,
      state: { on: true, deep: { a: [1] } },
      stateVersion: 4,
      reportedAt: 12,
    });
    expect(await devices().states(tenantId, [b])).toEqual([
      { deviceId: b, state: {}, stateVersion: 0, reportedAt: null },
    ]);
    expect(await devices().states(newId(), [a, b])).toEqual([]);
  });

  describe('after a flush of presence', () => {
    const presence = async (id: string) => (await devices().lastSeen([id])).get(id);

    it('have the latest activity time, and keep a battery level that is not reported again', async () => {
      const id = newId();
      expect(await presence(id)).toBeUndefined();
      await devices().flushPresence([]);
      await devices().flushPresence([{ deviceId: id, lastSeen: 50, battery: 80, refusals: 2 }]);
      await devices().flushPresence([{ deviceId: id, lastSeen: 40, refusals: 1 }]);
      expect(await presence(id)).toEqual({ lastSeen: 50, battery: 80, telemetry: null, refusals: 3 });
      await devices().flushPresence([{ deviceId: id, lastSeen: 60, battery: 79 }]);
      expect(await presence(id)).toEqual({ lastSeen: 60, battery: 79, telemetry: null, refusals: 3 });
    });

    it('have their last 20 connection events, newest first', async () => {
      const id = newId();
      const events = (from: number, to: number) =>
        Array.from({ length: from - to + 1 }, (_, n) => ({ at: from - n, event: 'online' as const }));
      expect(await devices().connections([id])).toEqual(new Map());
      await devices().flushPresence([{ deviceId: id, lastSeen: 1, connections: events(3, 1) }]);
      await devices().flushPresence([{ deviceId: id, lastSeen: 2 }]);
      expect((await devices().connections([id, newId()])).get(id)).toEqual(events(3, 1));
      await devices().flushPresence([{ deviceId: id, lastSeen: 0, connections: events(15, 4) }]);
      expect((await devices().connections([id])).get(id)).toEqual(events(15, 1));
      await devices().flushPresence([{ deviceId: id, lastSeen: 0, connections: events(25, 16) }]);
      expect((await devices().connections([id])).get(id)).toEqual(events(25, 6));
      expect(await presence(id)).toMatchObject({ lastSeen: 2 });
    });

    it('have each connection event once, although a flush is repeated because its outcome was unknown', async () => {
      const id = newId();
      const online = { at: 1, event: 'online' as const };
      const hello = { at: 1, event: 'hello' as const, firmware: null };
      const offline = { at: 2, event: 'offline' as const };
      await devices().flushPresence([{ deviceId: id, lastSeen: 1, connections: [hello, online] }]);
      await devices().flushPresence([{ deviceId: id, lastSeen: 2, connections: [offline, hello, online] }]);
      expect((await devices().connections([id])).get(id)).toEqual([offline, hello, online]);
    });

    it('have the latest of each member of their telemetry', async () => {
      const id = newId();
      const flush = (telemetry: object) => devices().flushPresence([{ deviceId: id, lastSeen: 1, telemetry }]);
      const known = async () => (await presence(id))?.telemetry;
      await flush({ rssi: -60, deviceType: 'lamp', manifestVersion: 2 });
      expect(await known()).toEqual({ rssi: -60, deviceType: 'lamp', manifestVersion: 2 });
      await devices().flushPresence([{ deviceId: id, lastSeen: 2 }]);
      await flush({ rssi: -50.5, deviceType: null });
      expect(await known()).toEqual({ rssi: -50.5, deviceType: null, manifestVersion: 2 });
    });

    it('have no activity time if only refusals were reported', async () => {
      const tenantId = newId();
      const [id = ''] = await made(tenantId, {});
      await devices().flushPresence([{ deviceId: id, lastSeen: 0, refusals: 1 }]);
      expect(await presence(id)).toEqual({ lastSeen: null, battery: null, telemetry: null, refusals: 1 });
      expect((await devices().list(tenantId, {}, 1)).items[0]?.lastSeen).toBeNull();
    });

    it('have the last use of their key', async () => {
      const id = newId();
      const key = { keyVersion: 1, signingAlg: 'ed25519' as const, sealedSecret: null, publicKey: 'pub', createdAt: 1 };
      const keys = [key, { ...key, keyVersion: 2 }];
      await commitAll(deviceCommit({ id, rows: keys.map((key) => ({ type: 'key.put', deviceId: id, key })) }));
      const used = (...at: number[]) => at.map((usedAt, index) => ({ version: index + 1, usedAt }));
      await devices().flushPresence([{ deviceId: id, lastSeen: 0, keys: used(30, 31) }]);
      await devices().flushPresence([{ deviceId: id, lastSeen: 40, keys: used(20) }]);
      const history = await devices().keyHistory(id);
      expect(history.map(({ keyVersion, lastUsedAt }) => [keyVersion, lastUsedAt]).sort()).toEqual([
        [1, 30],
        [2, 31],
      ]);
    });

    it('are updated in one flush for thousands', async () => {
      const ids = Array.from({ length: 2_000 }, newId);
      await devices().flushPresence(ids.map((deviceId) => ({ deviceId, lastSeen: 5 })));
      expect((await devices().lastSeen(ids)).size).toBe(2_000);
    });
  });
});
