import { describe, expect, it } from 'vitest';
import { StoreLiveness } from '../../src/services/store-liveness.ts';
import { UserCache } from '../../src/services/user-cache.ts';
import type { User } from '../../src/store/contract.ts';
import { MemoryStore } from '../support/memory-store.ts';

const ada: User = {
  id: 'u1',
  iss: 'urn:twinkeep',
  sub: 'ada',
  email: null,
  emailVerified: false,
  tenantId: null,
  role: 'none',
  createdAt: 0,
  notBefore: null,
};

function setUp() {
  const store = new MemoryStore();
  store.users.set(ada.id, ada);
  return { store, users: new UserCache(store, { liveness: new StoreLiveness(store) }) };
}

describe('users in memory', () => {
  it('are read once for concurrent requests', async () => {
    const { store, users } = setUp();
    await Promise.all([users.get('u1'), users.get('u1'), users.get('u1')]);
    await users.get('u1');
    expect([store.userReads, users.cached('u1')]).toEqual([1, ada]);
  });

  it('are reloaded after a change, and subscribers are notified', async () => {
    const { store, users } = setUp();
    const received: string[] = [];
    const stop = users.subscribe((id) => received.push(id));
    await users.get('u1');
    store.users.set('u1', { ...ada, role: 'admin' });
    users.invalidate('u1');
    expect(users.cached('u1')).toBeUndefined();
    expect((await users.get('u1'))?.role).toBe('admin');
    stop();
    users.invalidate('u1');
    expect(received).toEqual(['u1']);
  });

  it('ignore a read that started before a change and ended after it', async () => {
    const { store, users } = setUp();
    const read = store.identity.user;
    const latch = Promise.withResolvers<void>();
    store.identity.user = async (id) => {
      const old = await read(id);
      await latch.promise;
      return old;
    };
    const slow = users.get('u1');
    store.identity.user = read;
    store.users.set('u1', { ...ada, role: 'admin' });
    users.invalidate('u1');
    const fresh = await users.get('u1');
    latch.resolve();
    expect([(await slow)?.role, fresh?.role, users.cached('u1')?.role]).toEqual(['none', 'admin', 'admin']);
  });

  it('are read again after a store failure', async () => {
    const { store, users } = setUp();
    const read = store.identity.user;
    store.identity.user = () => Promise.reject(new Error('away'));
    await expect(users.get('u1')).rejects.toThrow('away');
    store.identity.user = read;
    expect(await users.get('u1')).toEqual(ada);
  });

  it('that do not exist are not cached', async () => {
    const { store, users } = setUp();
    expect(await users.get('u2')).toBeNull();
    store.users.set('u2', { ...ada, id: 'u2' });
    expect((await users.get('u2'))?.id).toBe('u2');
  });
});
