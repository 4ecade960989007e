import { LRUCache } from 'lru-cache';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { entriesAtMost } from '../../domain/lru-bound.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { PresenceFlush } from '../contract.ts';

const MAX_DEVICES = 50_000;
const LIFE_MS = 600_000;

/** The columns of a row of `presence` that lists show; null without a message so far. */
export interface LastActivity {
  lastSeen: EpochMs | null;
  battery: number | null;
}

const NEVER: LastActivity = { lastSeen: null, battery: null };

/**
 * Cache of the last activity of the devices that were listed last: to search 51 devices in `presence` takes PostgreSQL
 * nearly as long as the rest of a page. Only the owner of a device flushes its activity, so it sees every change; the cache is
 * emptied when this process becomes the owner of further tenants.
 */
export class LastActivities {
  /** A node that lost a tenant may write its last activity late, after a flush that failed. */
  readonly #known = new LRUCache<Uuid, LastActivity>({ ...entriesAtMost(MAX_DEVICES), ttl: LIFE_MS });
  readonly #generation: () => number;
  #knownIn: number;
  /** Number of changes: what is read while one is made may be the state before it. */
  #changes = 0;

  /** `generation` changes when tenants are added to this process. */
  constructor(generation: () => number = () => 0) {
    this.#generation = generation;
    this.#knownIn = generation();
  }

  sizes(): CollectionSizes {
    return { last_activities: this.#known.size };
  }

  /** The last activity of each device, in order; `read` is called for those that are not cached, if any. */
  async of(
    ids: readonly Uuid[],
    read: (missing: readonly Uuid[]) => Promise<ReadonlyMap<Uuid, LastActivity>>,
  ): Promise<LastActivity[]> {
    this.#dropOutdated();
    const known = ids.map((id) => this.#known.get(id));
    const missing = ids.filter((_, index) => known[index] === undefined);
    if (missing.length === 0) return known as LastActivity[];
    const before = this.#changes;
    const stored = await read(missing);
    this.#dropOutdated();
    return ids.map((id, index) => {
      const found = known[index];
      if (found !== undefined) return found;
      const { lastSeen, battery } = stored.get(id) ?? NEVER;
      if (this.#changes === before) this.#known.set(id, { lastSeen, battery });
      return { lastSeen, battery };
    });
  }

  /** Runs a flush of these rows, and changes what is cached of their devices. */
  async during(rows: readonly PresenceFlush[], flush: () => Promise<void>): Promise<void> {
    try {
      await flush();
      for (const row of rows) this.#update(row);
    } catch (error) {
      // The outcome may be unknown.
      for (const { deviceId } of rows) this.#known.delete(deviceId);
      throw error;
    } finally {
      this.#changes += 1;
    }
  }

  #update({ deviceId, lastSeen, battery }: PresenceFlush): void {
    const known = this.#known.peek(deviceId);
    if (known === undefined) return;
    const seen = Math.max(known.lastSeen ?? 0, lastSeen) || null;
    this.#known.set(deviceId, { lastSeen: seen, battery: battery ?? known.battery }, { noUpdateTTL: true });
  }

  #dropOutdated(): void {
    const generation = this.#generation();
    if (generation === this.#knownIn) return;
    this.#knownIn = generation;
    this.#changes += 1;
    this.#known.clear();
  }
}
