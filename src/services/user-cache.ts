import { LRUCache } from 'lru-cache';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import { entriesAtMost } from '../domain/lru-bound.ts';
import type { Uuid } from '../domain/values.ts';
import type { Store, User } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import type { StoreLiveness } from './store-liveness.ts';

export type { User };

/** A user as an identity provider or a token names it. */
type UserSubject = Pick<User, 'id' | 'iss' | 'sub' | 'email' | 'emailVerified' | 'createdAt'>;

const CACHED_USERS = 50_000;

/** Cache of users by id. Call `invalidate` after the commit that changes a user's row. */
export class UserCache implements SizeReporter {
  readonly #store: Pick<Store, 'identity'>;
  readonly #liveness: StoreLiveness;
  readonly #invalidations: InvalidationBus;
  readonly #users: LRUCache<Uuid, User>;
  readonly #loading = new Map<Uuid, Promise<User | null>>();
  readonly #upserting = new Map<string, Promise<User>>();
  readonly #listeners = new Set<(id: Uuid) => void>();

  constructor(
    store: Pick<Store, 'identity'>,
    {
      liveness,
      invalidations = makeLocalInvalidationBus(),
    }: { liveness: StoreLiveness; invalidations?: InvalidationBus },
  ) {
    this.#store = store;
    this.#liveness = liveness;
    this.#invalidations = invalidations;
    this.#users = new LRUCache({ ...entriesAtMost(CACHED_USERS), ttl: invalidations.entryLifeMs });
    invalidations.subscribeMissed(() => {
      this.#users.clear();
      this.#loading.clear();
    });
    invalidations.subscribe((item) => {
      if (item.about !== 'user') return;
      this.#users.delete(item.id);
      this.#loading.delete(item.id);
      for (const listener of this.#listeners) listener(item.id);
    });
  }

  /** From memory only; undefined on a miss, or while the memory may be outdated. */
  cached(id: Uuid): User | undefined {
    return this.#invalidations.isCurrent() ? this.#users.get(id) : undefined;
  }

  /** Throws `StoreUnavailable`. */
  async get(id: Uuid): Promise<User | null> {
    if (!this.#invalidations.isCurrent()) return this.#liveness.guard(this.#store.identity.user(id));
    return this.#users.get(id) ?? this.#liveness.guard(this.#loading.get(id) ?? this.#load(id));
  }

  /** The existing user of a subject; never creates one. Throws `StoreUnavailable`. */
  findBySubject({ iss, sub }: Pick<UserSubject, 'iss' | 'sub'>): Promise<User | null> {
    return this.#liveness.guard(this.#store.identity.userBySubject(iss, sub));
  }

  /**
   * The user of a subject; created on the first sign-in with role `none` and no tenant (contract §3). Throws
   * `StoreUnavailable`.
   */
  findOrCreate(subject: UserSubject): Promise<User> {
    const name = JSON.stringify([subject.iss, subject.sub, subject.emailVerified ? subject.email : null]);
    let pending = this.#upserting.get(name);
    if (pending === undefined) {
      pending = this.#upsert(subject).finally(() => this.#upserting.delete(name));
      this.#upserting.set(name, pending);
    }
    return this.#liveness.guard(pending);
  }

  invalidate(id: Uuid): void {
    this.#invalidations.publish({ about: 'user', id });
  }

  /** Calls `listener` when a user's tenant, role or email may have changed, for connections that depend on them. */
  subscribe(listener: (id: Uuid) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  sizes(): CollectionSizes {
    return {
      users: this.#users.size,
      users_loading: this.#loading.size,
      users_signing_in: this.#upserting.size,
      user_listeners: this.#listeners.size,
    };
  }

  #load(id: Uuid): Promise<User | null> {
    const started = this.#store.identity.user(id).then(
      (user) => {
        // An invalidation during the load removed it from the map: its result may be stale, so it is not cached.
        if (this.#loading.get(id) === started) {
          this.#loading.delete(id);
          if (user !== null) this.#users.set(id, user);
        }
        return user;
      },
      (fault: unknown) => {
        if (this.#loading.get(id) === started) this.#loading.delete(id);
        throw fault;
      },
    );
    this.#loading.set(id, started);
    return started;
  }

  async #upsert(subject: UserSubject): Promise<User> {
    const user = await this.#store.identity.upsertUser(subject);
    const cached = this.#users.get(user.id);
    if (cached !== undefined && cached.email !== user.email) this.invalidate(user.id);
    return user;
  }
}
