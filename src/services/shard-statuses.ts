import { SHARD_COUNT } from '../domain/shards.ts';

/**
 * A shard on this node: `absent`, or owned and being loaded (`opening`), in use (`open`), or being handed over
 * (`closing`).
 */
export type ShardStatus = 'absent' | 'opening' | 'open' | 'closing';

export const allShards: readonly number[] = Array.from({ length: SHARD_COUNT }, (_, shard) => shard);

/** The status of each shard on this node, and its requests in progress. */
export class ShardStatuses {
  readonly #status: ShardStatus[] = allShards.map(() => 'absent');
  readonly #inProgress: number[] = allShards.map(() => 0);
  #changed = Promise.withResolvers<void>();

  /** Resolves when a status changes, when the last request of a closing shard ends, or at the next `notify`. */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  status(shard: number): ShardStatus {
    return this.#status[shard] ?? 'absent';
  }

  withStatus(status: ShardStatus): number[] {
    return allShards.filter((shard) => this.#status[shard] === status);
  }

  set(shards: Iterable<number>, status: ShardStatus): void {
    for (const shard of shards) this.#status[shard] = status;
    this.notify();
  }

  notify(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }

  hasRequests(shard: number): boolean {
    return this.#inProgress[shard] !== 0;
  }

  /** Counts a request as in progress until the returned function is called. */
  enter(shard: number): () => void {
    let left = false;
    this.#inProgress[shard] = (this.#inProgress[shard] ?? 0) + 1;
    return () => {
      if (left) return;
      left = true;
      this.#inProgress[shard] = (this.#inProgress[shard] ?? 1) - 1;
      if (this.#inProgress[shard] === 0 && this.#status[shard] === 'closing') this.notify();
    };
  }
}
