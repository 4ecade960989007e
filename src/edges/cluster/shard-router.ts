import { setTimeout as pause } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { PeerNode, ShardDirectory, ShardRoute } from '../../domain/shards.ts';
import type { Milliseconds } from '../../domain/values.ts';

/** The result of sending something to another node once; `again`: it was not executed there, or may be repeated. */
export type Attempt = 'done' | 'again';

/** How something is served on this node or sent to another one. */
export interface ShardHandlers {
  /** `attempts`: how often `there` was called before. */
  here(leave: () => void, attempts: number): void | Promise<void>;
  there(node: PeerNode): Promise<Attempt>;
}

/** Before an attempt at a node that was tried; another owner is tried at once. */
const RETRY: BackoffLimits = { firstMs: 20, maxMs: 250 };

/**
 * Routes to the owners of shards. A node that is not the owner or cannot be reached may have handed the shard over or
 * may have failed a moment ago: then the owners are read again, and the attempt is repeated for about two seconds.
 */
export class ShardRouter {
  readonly #directory: ShardDirectory;
  readonly #retryMs: Milliseconds;

  /** `retryMs`: time after which no further attempt begins. */
  constructor(directory: ShardDirectory, retryMs: Milliseconds) {
    this.#directory = directory;
    this.#retryMs = retryMs;
  }

  /** See `ShardDirectory.enter`. */
  enter(shard: number): ReturnType<ShardDirectory['enter']> {
    return this.#directory.enter(shard);
  }

  /**
   * Calls `here`, or `there` until it is done. False if there is no owner, or if none was reached in time: `here` was
   * not called. `entered`: the result of `enter`, if the caller has it.
   */
  async route(shard: number, { here, there }: ShardHandlers, entered = this.enter(shard)): Promise<boolean> {
    const until = performance.now() + this.#retryMs;
    const tried = new Set<string>();
    let next: ReturnType<ShardDirectory['enter']> | null = entered;
    for (let attempts = 0; next !== null; attempts += 1) {
      const route: ShardRoute = await next;
      if (route.at === 'none') return false;
      if (route.at === 'here') {
        await here(() => route.leave(), attempts);
        return true;
      }
      if ((await there(route.node)) === 'done') return true;
      tried.add(nameOf(route.node));
      next = await this.#enterAgain(shard, tried, { failures: attempts + 1, until });
    }
    return false;
  }

  /** The route after a failed attempt; null if the time has passed. */
  async #enterAgain(
    shard: number,
    tried: ReadonlySet<string>,
    { failures, until }: { failures: number; until: number },
  ): Promise<ShardRoute | null> {
    const left = () => Math.max(0, until - performance.now());
    // A reading of the owners can take long while a node is fenced.
    const isLate = await Promise.race([
      this.#directory.refresh().then(() => left() === 0),
      pause(left(), true, { ref: false }),
    ]);
    if (isLate) return null;
    const route = await this.enter(shard);
    if (route.at !== 'node' || !tried.has(nameOf(route.node))) return route;
    await pause(Math.min(left(), backoffDelay(failures, RETRY, 'half')));
    return this.enter(shard);
  }
}

const nameOf = ({ id, address }: PeerNode): string => `${id} ${address}`;
