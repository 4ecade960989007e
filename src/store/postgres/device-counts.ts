import { LRUCache } from 'lru-cache';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { entriesAtMost } from '../../domain/lru-bound.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActorRef } from '../../machines/outputs.ts';
import type { ActorCommit } from '../contract.ts';

const MAX_TENANTS = 10_000;
/** A commit with unknown outcome may still take effect later. */
const LIFE_MS = 30_000;

/**
 * Cache of each tenant's number of devices. Devices that this process adds are added to a cached count; a commit that
 * removes one, or whose outcome is unknown, drops it. Only the owner of a tenant writes its devices, so it sees every
 * change; the counts are dropped when this process becomes the owner.
 */
export class DeviceCounts {
  readonly #counts = new LRUCache<Uuid, number>({ ...entriesAtMost(MAX_TENANTS), ttl: LIFE_MS });
  /** Commits in progress that add or remove devices, by tenant: a count that is read meanwhile may include them or not. */
  readonly #open = new Map<Uuid, number>();
  readonly #generation: () => number;
  #countedIn: number;
  #changes = 0;

  /** `generation` changes when tenants are added to this process. */
  constructor(generation: () => number = () => 0) {
    this.#generation = generation;
    this.#countedIn = generation();
  }

  async of(tenantId: Uuid, count: () => Promise<number>): Promise<number> {
    this.#dropOutdated();
    const known = this.#counts.get(tenantId);
    if (known !== undefined) return known;
    const before = this.#changes;
    const counted = await count();
    this.#dropOutdated();
    if (this.#changes === before && !this.#open.has(tenantId)) this.#counts.set(tenantId, counted);
    return counted;
  }

  #dropOutdated(): void {
    const generation = this.#generation();
    if (generation === this.#countedIn) return;
    this.#countedIn = generation;
    this.#changes += 1;
    this.#counts.clear();
  }

  sizes(): CollectionSizes {
    return { device_counts: this.#counts.size, open_device_counts: this.#open.size };
  }

  /** Runs a commit of these actors and follows what it changes. */
  async during<T extends { lost: readonly ActorRef[] }>(
    actors: readonly ActorCommit[],
    commit: () => Promise<T>,
  ): Promise<T> {
    const changes = deviceChanges(actors);
    if (changes.length === 0) return commit();
    const tenants = new Set(changes.map(({ tenantId }) => tenantId));
    for (const tenantId of tenants) this.#open.set(tenantId, (this.#open.get(tenantId) ?? 0) + 1);
    try {
      const outcome = await commit();
      const lost = new Set(outcome.lost.map(({ id }) => id));
      for (const change of changes) {
        if (change.removed) this.#counts.delete(change.tenantId);
        else if (!lost.has(change.id)) this.#add(change.tenantId);
      }
      return outcome;
    } catch (error) {
      for (const tenantId of tenants) this.#counts.delete(tenantId);
      throw error;
    } finally {
      this.#changes += 1;
      for (const tenantId of tenants) this.#close(tenantId);
    }
  }

  #add(tenantId: Uuid): void {
    const known = this.#counts.get(tenantId);
    // With its first expiry: a wrong count, after an unknown outcome, must not live on.
    if (known !== undefined) this.#counts.set(tenantId, known + 1, { noUpdateTTL: true });
  }

  #close(tenantId: Uuid): void {
    const left = (this.#open.get(tenantId) ?? 1) - 1;
    if (left === 0) this.#open.delete(tenantId);
    else this.#open.set(tenantId, left);
  }
}

/** The commits that add or remove a device. */
const deviceChanges = (actors: readonly ActorCommit[]): { id: Uuid; tenantId: Uuid; removed: boolean }[] =>
  actors.flatMap(({ ref, readVersion, columns, tenantId }) => {
    const removed = columns.deleted === true;
    return ref.kind === 'device' && (readVersion === 0 || removed) ? [{ id: ref.id, tenantId, removed }] : [];
  });
