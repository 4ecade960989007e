import { LRUCache } from 'lru-cache';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Uuid } from '../domain/values.ts';
import type { Store, User } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import { makeLivenessGuard } from './store-liveness.ts';

export type { User };

/** Cache of users by id. Call `invalidate` after the commit that changes a user's row. */
export interface UserCache extends SizeReporter {
  /** From memory only. */
  cached(id: Uuid): User | undefined;
  get(id: Uuid): Promise<User | null>;
  /** The user of a subject; created on the first sign-in with role `none` and no tenant (contract §3). */
  findOrCreate(subject: Pick<User, 'id' | 'iss' | 'sub' | 'email' | 'emailVerified' | 'createdAt'>): Promise<User>;
  invalidate(id: Uuid): void;
  /** Calls `listener` when a user's tenant, role or email may have changed, for connections that depend on them. */
  subscribe(listener: (id: Uuid) => void): () => void;
}

const CACHED_USERS = 50_000;

export function makeUserCache(
  store: Pick<Store, 'identity' | 'ping'>,
  invalidations: InvalidationBus = makeLocalInvalidationBus(),
): UserCache {
  const guarded = makeLivenessGuard((timeoutMs) => store.ping(timeoutMs));
  const users = new LRUCache<Uuid, User>({ max: CACHED_USERS });
  const loading = new Map<Uuid, Promise<User | null>>();
  const upserting = new Map<string, Promise<User>>();
  const listeners = new Set<(id: Uuid) => void>();

  function load(id: Uuid): Promise<User | null> {
    const started = store.identity.user(id).then(
      (user) => {
        // An invalidation during the load removed it from the map: its result may be stale, so it is not cached.
        if (loading.get(id) === started) {
          loading.delete(id);
          if (user !== null) users.set(id, user);
        }
        return user;
      },
      (fault: unknown) => {
        if (loading.get(id) === started) loading.delete(id);
        throw fault;
      },
    );
    loading.set(id, started);
    return started;
  }

  invalidations.subscribe((item) => {
    if (item.about !== 'user') return;
    users.delete(item.id);
    loading.delete(item.id);
    for (const listener of listeners) listener(item.id);
  });
  const invalidate = (id: Uuid): void => invalidations.publish({ about: 'user', id });

  return {
    cached: (id) => users.get(id),
    get: async (id) => users.get(id) ?? guarded(loading.get(id) ?? load(id)),
    findOrCreate(subject) {
      const name = JSON.stringify([subject.iss, subject.sub, subject.emailVerified ? subject.email : null]);
      let pending = upserting.get(name);
      if (pending === undefined) {
        pending = store.identity
          .upsertUser(subject)
          .then((user) => {
            const cached = users.get(user.id);
            if (cached !== undefined && cached.email !== user.email) invalidate(user.id);
            return user;
          })
          .finally(() => upserting.delete(name));
        upserting.set(name, pending);
      }
      return guarded(pending);
    },
    sizes: () => ({
      users: users.size,
      users_loading: loading.size,
      users_signing_in: upserting.size,
      user_listeners: listeners.size,
    }),
    invalidate,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
