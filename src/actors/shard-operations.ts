import { setTimeout as pause } from 'node:timers/promises';
import { type Clock, elapsedOf } from '../domain/clock.ts';
import { SHARD_COUNT } from '../domain/shards.ts';
import type { Milliseconds } from '../domain/values.ts';

const POLL_MS: Milliseconds = 5;

/** The operations in progress in each shard, which is handed over only when they have ended. */
export class ShardOperations {
  readonly #running: number[] = Array.from({ length: SHARD_COUNT }, () => 0);
  /** Those that can be interrupted, with their shards. */
  readonly #interruptible = new Map<() => void, number>();

  /** Begins an operation; the result ends it. `interrupt`: see `Actors.enter`. */
  begin(shard: number, interrupt?: () => void): () => void {
    this.#add(shard, 1);
    if (interrupt !== undefined) this.#interruptible.set(interrupt, shard);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#add(shard, -1);
      if (interrupt !== undefined) this.#interruptible.delete(interrupt);
    };
  }

  /** Interrupts the operations of these shards that can be. */
  interrupt(shards: ReadonlySet<number>): void {
    for (const [interrupt, shard] of this.#interruptible) if (shards.has(shard)) interrupt();
  }

  /** Resolves when these shards have no operations; with false if that takes longer than `timeoutMs`. */
  async whenEnded(shards: ReadonlySet<number>, clock: Clock, timeoutMs: Milliseconds): Promise<boolean> {
    const until = elapsedOf(clock) + timeoutMs;
    while ([...shards].some((shard) => this.#running[shard] !== 0)) {
      if (elapsedOf(clock) >= until) return false;
      await pause(POLL_MS);
    }
    return true;
  }

  #add(shard: number, change: 1 | -1): void {
    this.#running[shard] = (this.#running[shard] ?? 0) + change;
  }
}
