import { LRUCache } from 'lru-cache';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActorCommit } from '../contract.ts';

const MAX_TENANTS = 10_000;
/** A commit whose outcome is unknown may take place after all. */
const LIFE_MS = 30_000;

/**
 * How many devices each tenant has, counted once and again after a commit that adds or removes one. Only the active
 * process writes devices, so it hears of each.
 */
export class DeviceCounts {
  private readonly counts = new LRUCache<Uuid, number>({ max: MAX_TENANTS, ttl: LIFE_MS });
  private changes = 0;

  async of(tenantId: Uuid, count: () => Promise<number>): Promise<number> {
    const known = this.counts.get(tenantId);
    if (known !== undefined) return known;
    const before = this.changes;
    const counted = await count();
    if (this.changes === before) this.counts.set(tenantId, counted);
    return counted;
  }

  sizes(): CollectionSizes {
    return { device_counts: this.counts.size };
  }

  /** To be told of every commit when it is over, however it went. */
  committed(actors: readonly ActorCommit[]): void {
    for (const { ref, readVersion, columns, tenantId } of actors) {
      if (ref.kind !== 'device' || (readVersion > 0 && columns.deleted !== true)) continue;
      this.changes += 1;
      this.counts.delete(tenantId);
    }
  }
}
