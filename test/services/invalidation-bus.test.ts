import { describe, expect, it } from 'vitest';
import { loadAgentTokens } from '../../src/services/agent-tokens.ts';
import { ApiKeyCache } from '../../src/services/api-key-cache.ts';
import { type Invalidation, openInvalidationBus } from '../../src/services/invalidation-bus.ts';
import { StoreLiveness } from '../../src/services/store-liveness.ts';
import { loadRevocations } from '../../src/services/tokens.ts';
import { UserCache } from '../../src/services/user-cache.ts';
import { testClock } from '../support/clock.ts';
import { MemoryCache } from '../support/memory-cache.ts';
import { MemoryStore } from '../support/memory-store.ts';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** Two processes that share a store and a cache. */
async function twoProcesses() {
  const clock = testClock();
  const cache = new MemoryCache(clock);
  const store = new MemoryStore();
  const liveness = new StoreLiveness(store);
  const open = async (origin: string) => {
    const invalidations = await openInvalidationBus(cache, origin, quiet);
    const received: Invalidation[] = [];
    invalidations.subscribe((item) => received.push(item));
    return {
      invalidations,
      received,
      users: new UserCache(store, { liveness, invalidations }),
      revocations: await loadRevocations(store.identity, clock, invalidations),
      keys: new ApiKeyCache(store, { clock, log: quiet, liveness, invalidations }),
      presented: await loadAgentTokens(store.identity, clock, invalidations),
    };
  };
  return { clock, cache, store, one: await open('one'), two: await open('two') };
}

const USER = '0192f0c1-0000-7000-8000-000000000001';
const TENANT = '0192f0c1-0000-7000-8000-000000000002';
const ada = {
  ...{ id: USER, iss: 'urn:test', sub: 'ada', email: null, emailVerified: false },
  ...{ tenantId: TENANT, role: 'user' as const, createdAt: 0, notBefore: null },
};

describe('an invalidation', () => {
  it('reaches each subscriber once, also in the same process, before publishing returns', async () => {
    const { one, two } = await twoProcesses();
    one.invalidations.publish({ about: 'user', id: USER });
    expect([one.received, two.received]).toEqual([[{ about: 'user', id: USER }], [{ about: 'user', id: USER }]]);
  });

  it('does not reach a subscriber after unsubscribing', async () => {
    const { one } = await twoProcesses();
    const received: Invalidation[] = [];
    one.invalidations.subscribe((item) => received.push(item))();
    one.invalidations.publish({ about: 'user', id: USER });
    expect(received).toEqual([]);
  });

  it.each(['', 'one', 'three ', 'three {', 'three null', 'three {"about":"weather"}', 'three {"about":"user"}'])(
    'that is malformed is ignored: %j',
    async (message) => {
      const { cache, one, two } = await twoProcesses();
      await cache.publish('invalidations', message);
      expect([one.received, two.received]).toEqual([[], []]);
    },
  );

  it('reaches this process even if the cache does not accept it', async () => {
    const broken = { subscribe: async () => async () => {}, publish: () => Promise.reject(new Error('away')) };
    const invalidations = await openInvalidationBus(broken, 'one', quiet);
    const received: Invalidation[] = [];
    invalidations.subscribe((item) => received.push(item));
    invalidations.publish({ about: 'key', prefix: 'abcdefgh' });
    expect(received).toHaveLength(1);
  });
});

describe('another process', () => {
  it('reloads a user who was changed here, and notifies its connections', async () => {
    const { store, one, two } = await twoProcesses();
    store.users.set(USER, ada);
    await two.users.get(USER);
    const notified: string[] = [];
    two.users.subscribe((id) => notified.push(id));
    store.users.set(USER, { ...ada, role: 'viewer' });
    one.users.invalidate(USER);
    expect([two.users.cached(USER), (await two.users.get(USER))?.role, notified]).toEqual([
      undefined,
      'viewer',
      [USER],
    ]);
  });

  it('knows a token that was logged out here, without reading the store', async () => {
    const { store, clock, one, two } = await twoProcesses();
    const notified: string[] = [];
    two.revocations.subscribe((id) => notified.push(id));
    await one.revocations.add('jti', clock.now() + 1_000);
    expect([two.revocations.has('jti'), notified, store.revoked.size]).toEqual([true, ['jti'], 1]);
  });

  it('looks up a key again that was revoked here, and notifies its connections', async () => {
    const { store, one, two } = await twoProcesses();
    const key = {
      ...{
        prefix: 'abcdefgh',
        tenantId: TENANT,
        userId: USER,
        name: 'x',
        hash: 'x',
        scopes: [],
        roleCap: 'admin' as const,
      },
      ...{ createdAt: 0, lastUsedAt: null, expiresAt: null, revokedAt: null, restriction: null },
      ...{ graceUntil: null, replacedBy: null, replaces: null },
    };
    store.users.set(USER, ada);
    await store.keys.insert(key);
    expect(await two.keys.isValid('abcdefgh')).toBe(true);
    const notified: string[] = [];
    const stop = two.keys.subscribe((prefix) => notified.push(prefix));
    await store.keys.revoke('abcdefgh', 1);
    expect(await two.keys.isValid('abcdefgh')).toBe(true);
    one.keys.invalidate('abcdefgh');
    expect([await two.keys.isValid('abcdefgh'), notified]).toEqual([false, ['abcdefgh']]);
    stop();
    one.keys.invalidate('abcdefgh');
    expect(notified).toHaveLength(1);
  });

  it('knows an agent token that was presented here', async () => {
    const { clock, one, two } = await twoProcesses();
    const token = { id: 'jti', expiresAt: clock.now() + 1_000 };
    await one.presented.add(USER, token);
    expect([two.presented.has(USER, { id: 'jti' }), two.presented.add(USER, token)]).toEqual([true, undefined]);
  });
});
