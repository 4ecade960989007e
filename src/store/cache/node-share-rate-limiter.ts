import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { type Allowance, isDivided, type PayerKind, type RateLimiter } from '../contract/rate-limiter.ts';

/**
 * Rate limiter of one of several nodes that share no counters: each grants its share of a limit that is divided, and the
 * whole of the others.
 */
export class NodeShareRateLimiter implements RateLimiter {
  readonly #local: RateLimiter;
  readonly #nodes: () => number;

  /** `nodes`: the number of active nodes, at least 1. */
  constructor(local: RateLimiter, nodes: () => number) {
    this.#local = local;
    this.#nodes = nodes;
  }

  /** A charge counts once for each node, so that the remaining budget refers to the whole limit. */
  take(kind: PayerKind, id: string, limit: number, cost = 1): Allowance {
    if (!isDivided(kind) || cost > limit) return this.#local.take(kind, id, limit, cost);
    // With more nodes than the limit, each grants one request.
    return this.#local.take(kind, id, limit, Math.min(limit, cost * this.#nodes()));
  }

  peek(kind: PayerKind, id: string, limit: number): Allowance {
    return this.#local.peek(kind, id, limit);
  }

  sizes(): CollectionSizes {
    return this.#local.sizes();
  }

  close(): Promise<void> {
    return this.#local.close();
  }
}
