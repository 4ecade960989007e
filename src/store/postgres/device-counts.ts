import { LRUCache } from 'lru-cache';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActorCommit } from '../contract.ts';

const MAX_TENANTS = 10_000;
/** A commit with unknown outcome may still take effect later. */
const LIFE_MS = 30_000;

/**
 * Cache of each tenant's number of devices, invalidated by a commit that adds or removes a device. Only the owner of a
 * tenant writes its devices, so it sees every change; the counts are dropped when this process becomes the owner.
 */
export class DeviceCounts {
  readonly #counts = new LRUCache<Uuid, number>({ max: MAX_TENANTS, ttl: LIFE_MS });
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
    if (this.#changes === before) this.#counts.set(tenantId, counted);
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
    return { device_counts: this.#counts.size };
  }

  /** Must be called after every commit, whatever its outcome. */
  committed(actors: readonly ActorCommit[]): void {
    for (const { ref, readVersion, columns, tenantId } of actors) {
      if (ref.kind !== 'device' || (readVersion > 0 && columns.deleted !== true)) continue;
      this.#changes += 1;
      this.#counts.delete(tenantId);
    }
  }
}
