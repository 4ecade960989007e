import { LRUCache } from 'lru-cache';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Uuid } from '../domain/values.ts';
import type { Store, User } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import { makeLivenessGuard } from './store-liveness.ts';

export type { User };

/** Users by id, as the store last said; whoever changes a user's row says `changed` after the commit. */
export interface UserCache extends SizeReporter {
  /** Only what is in memory. */
  cached(id: Uuid): User | undefined;
  get(id: Uuid): Promise<User | null>;
  /** The user of a subject; made on first sight, with role `none` and no tenant (contract §3). */
  findOrCreate(subject: Pick<User, 'id' | 'iss' | 'sub' | 'email' | 'emailVerified' | 'createdAt'>): Promise<User>;
  invalidate(id: Uuid): void;
  /** Called when a user's tenant, role or email may have changed, for connections that depend on them. */
  subscribe(listener: (id: Uuid) => void): () => void;
}

const CACHED_USERS = 50_000;

export function makeUserCache(
  store: Pick<Store, 'identity' | 'ping'>,
  news: InvalidationBus = makeLocalInvalidationBus(),
): UserCache {
  const patiently = makeLivenessGuard((timeoutMs) => store.ping(timeoutMs));
  const users = new LRUCache<Uuid, User>({ max: CACHED_USERS });
  const loading = new Map<Uuid, Promise<User | null>>();
  const signing = new Map<string, Promise<User>>();
  const listeners = new Set<(id: Uuid) => void>();

  function load(id: Uuid): Promise<User | null> {
    const started = store.identity.user(id).then(
      (user) => {
        // A change meanwhile took this load out of the map: what it read may be the old row.
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

  news.subscribe((item) => {
    if (item.about !== 'user') return;
    users.delete(item.id);
    loading.delete(item.id);
    for (const listener of listeners) listener(item.id);
  });
  const changed = (id: Uuid): void => news.publish({ about: 'user', id });

  return {
    cached: (id) => users.get(id),
    get: async (id) => users.get(id) ?? patiently(loading.get(id) ?? load(id)),
    findOrCreate(subject) {
      const name = JSON.stringify([subject.iss, subject.sub, subject.emailVerified ? subject.email : null]);
      let signed = signing.get(name);
      if (signed === undefined) {
        signed = store.identity
          .upsertUser(subject)
          .then((user) => {
            const known = users.get(user.id);
            if (known !== undefined && known.email !== user.email) changed(user.id);
            return user;
          })
          .finally(() => signing.delete(name));
        signing.set(name, signed);
      }
      return patiently(signed);
    },
    sizes: () => ({
      users: users.size,
      users_loading: loading.size,
      users_signing_in: signing.size,
      user_listeners: listeners.size,
    }),
    invalidate: changed,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
