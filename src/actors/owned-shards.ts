import { type OwnedShards, shardOf } from '../domain/shards.ts';
import type { Uuid } from '../domain/values.ts';

/** The tenants whose actors this process runs. */
export interface ShardOwnership {
  /** The shards to load from the store; null: all. */
  readonly list: OwnedShards;
  /** Whether shards are being unloaded: their actors take no events from outside the runtime. */
  readonly unloading: boolean;
  /** Increases when shards are added: an actor that was read before may have been changed by another node since. */
  readonly generation: number;
  /** Whether actors of the tenant may be loaded. */
  accepts(tenantId: Uuid): boolean;
  /** Whether actors of the tenant may commit: also those that finish their work while their shard is unloaded. */
  holds(tenantId: Uuid): boolean;
}

/** The ownership of a process that has the store to itself. */
export const ownsEverything: ShardOwnership = {
  list: null,
  unloading: false,
  generation: 0,
  accepts: () => true,
  holds: () => true,
};

/** The shards of a node among others. */
export class LocalShards implements ShardOwnership {
  readonly #accepted = new Set<number>();
  /** Shards that load no further actors, but have some in memory. */
  readonly #unloading = new Set<number>();
  generation = 0;

  get list(): readonly number[] {
    return [...this.#accepted];
  }

  get unloading(): boolean {
    return this.#unloading.size > 0;
  }

  accepts(tenantId: Uuid): boolean {
    return this.#accepted.has(shardOf(tenantId));
  }

  holds(tenantId: Uuid): boolean {
    const shard = shardOf(tenantId);
    return this.#accepted.has(shard) || this.#unloading.has(shard);
  }

  add(shards: Iterable<number>): void {
    this.generation += 1;
    for (const shard of shards) this.#accepted.add(shard);
  }

  startUnloading(shards: Iterable<number>): void {
    for (const shard of shards) if (this.#accepted.delete(shard)) this.#unloading.add(shard);
  }

  /** The shards were not unloaded: nothing has changed. */
  cancelUnloading(shards: Iterable<number>): void {
    for (const shard of shards) if (this.#unloading.delete(shard)) this.#accepted.add(shard);
  }

  remove(shards: Iterable<number>): void {
    for (const shard of shards) this.#unloading.delete(shard);
  }
}
