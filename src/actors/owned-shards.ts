import { type OwnedShards, shardOf } from '../domain/shards.ts';
import type { Uuid } from '../domain/values.ts';
import { ShardOperations } from './shard-operations.ts';

/** The tenants whose actors this process runs. */
export interface ShardOwnership {
  /** The shards to load from the store; null: all. */
  readonly list: OwnedShards;
  /** Whether shards are being unloaded: their actors take no events from outside the runtime. */
  readonly unloading: boolean;
  /** Increases when shards are added: an actor that was read before may have been changed by another node since. */
  readonly generation: number;
  /** Whether sessions and operations of the tenant may begin: not while their shard is about to be unloaded. */
  admits(tenantId: Uuid): boolean;
  /** Whether actors of the tenant may be loaded and created. */
  accepts(tenantId: Uuid): boolean;
  /** See `Actors.enter`. */
  enter(tenantId: Uuid, interrupt?: () => void): (() => void) | null;
}

/** An id from `newId` for a new tenant, in a shard that this process owns, if it owns one. */
export function tenantIdIn(shards: OwnedShards, newId: () => Uuid): Uuid {
  const id = newId();
  if (shards === null || shards.length === 0 || shards.includes(shardOf(id))) return id;
  // The last byte of an id is random, and stays so among the shards of this process.
  const shard = shards[shardOf(id) % shards.length] as number;
  return `${id.slice(0, -2)}${shard.toString(16).padStart(2, '0')}`;
}

const noop = (): void => {};

/** The ownership of a process that has the store to itself. */
export const ownsEverything: ShardOwnership = {
  list: null,
  unloading: false,
  generation: 0,
  admits: () => true,
  accepts: () => true,
  enter: () => noop,
};

/** The shards of a node among others. */
export class LocalShards implements ShardOwnership {
  readonly #accepted = new Set<number>();
  /** Accepted shards that will be unloaded. */
  readonly #leaving = new Set<number>();
  /** Shards that load no further actors, but have some in memory. */
  readonly #unloading = new Set<number>();
  readonly operations = new ShardOperations();
  generation = 0;

  get list(): readonly number[] {
    return [...this.#accepted];
  }

  get unloading(): boolean {
    return this.#unloading.size > 0;
  }

  /** The shards in which sessions and tenants may begin. */
  get admitted(): readonly number[] {
    return this.list.filter((shard) => !this.#leaving.has(shard));
  }

  admits(tenantId: Uuid): boolean {
    const shard = shardOf(tenantId);
    return this.#accepted.has(shard) && !this.#leaving.has(shard);
  }

  accepts(tenantId: Uuid): boolean {
    return this.#accepted.has(shardOf(tenantId));
  }

  enter(tenantId: Uuid, interrupt?: () => void): (() => void) | null {
    return this.admits(tenantId) ? this.operations.begin(shardOf(tenantId), interrupt) : null;
  }

  add(shards: Iterable<number>): void {
    this.generation += 1;
    for (const shard of shards) {
      this.#leaving.delete(shard);
      this.#unloading.delete(shard);
      this.#accepted.add(shard);
    }
  }

  /** The first step of a removal: no session and no operation begins. */
  startLeaving(shards: Iterable<number>): void {
    for (const shard of shards) if (this.#accepted.has(shard)) this.#leaving.add(shard);
  }

  /** The second step: no actor is loaded. */
  startUnloading(shards: Iterable<number>): void {
    for (const shard of shards) if (this.#accepted.delete(shard)) this.#unloading.add(shard);
  }

  /** The shards stay: nothing has changed. */
  stay(shards: Iterable<number>): void {
    for (const shard of shards) {
      this.#leaving.delete(shard);
      if (this.#unloading.delete(shard)) this.#accepted.add(shard);
    }
  }

  /** The last step. */
  remove(shards: Iterable<number>): void {
    for (const shard of shards) {
      this.#leaving.delete(shard);
      this.#unloading.delete(shard);
    }
  }
}
