import { LRUCache } from 'lru-cache';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActorCommit } from '../contract.ts';

const MAX_TENANTS = 10_000;
/** A commit with unknown outcome may still take effect later. */
const LIFE_MS = 30_000;

/**
 * Cache of each tenant's number of devices, invalidated by a commit that adds or removes a device. Only the active
 * process writes devices, so it sees every change.
 */
export class DeviceCounts {
  readonly #counts = new LRUCache<Uuid, number>({ max: MAX_TENANTS, ttl: LIFE_MS });
  #changes = 0;

  async of(tenantId: Uuid, count: () => Promise<number>): Promise<number> {
    const known = this.#counts.get(tenantId);
    if (known !== undefined) return known;
    const before = this.#changes;
    const counted = await count();
    if (this.#changes === before) this.#counts.set(tenantId, counted);
    return counted;
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
