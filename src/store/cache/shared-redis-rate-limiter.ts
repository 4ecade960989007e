import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import {
  type Allowance,
  isChargedAtOwner,
  type PayerKind,
  RATE_WINDOW_MS,
  type RateLimiter,
} from '../contract/rate-limiter.ts';
import {
  BATCH,
  CounterExchange,
  counterOf,
  dropExpired,
  EXCHANGE_MS,
  type PipelineReply,
  payerKey,
  payerOf,
  rateKey,
} from './counter-exchange.ts';
import { MemoryRateLimiter } from './memory-rate-limiter.ts';

const COMMANDS = 3;

/**
 * Rate limiter of one of several nodes, with common counters in Redis. Requests never wait for it: four times a second
 * the charges of this node are added to the counters, and the sums are read. Between two exchanges a node grants its
 * share of the rest that it last read, so that all together grant at most twice the limit and one request for each node,
 * if every node gets its first requests of a window in the same quarter of a second. Without Redis each grants its share
 * of the limit.
 */
export class SharedRedisRateLimiter implements RateLimiter {
  readonly #local: MemoryRateLimiter;
  readonly #exchange: CounterExchange;
  readonly #nodes: () => number;
  /** Charges of this node that the counters do not include. */
  readonly #unsent = new Map<string, number>();

  /** `nodes`: the number of active nodes, at least 1. Nothing is sent to Redis once `lease` is invalid. */
  constructor(url: string, clock: Clock, lease: Lease, nodes: () => number) {
    this.#local = new MemoryRateLimiter(clock);
    this.#nodes = nodes;
    this.#exchange = new CounterExchange(url, lease, () => this.#synchronise());
  }

  take(kind: PayerKind, id: string, limit: number, cost = 1): Allowance {
    const key = payerKey(kind, id);
    const window = this.#local.window(kind, id);
    if (window === null) this.#unsent.delete(key);
    const unsent = this.#unsent.get(key) ?? 0;
    if (!isChargedAtOwner(kind) && window !== null && unsent > 0) {
      const left = limit - (window.used - unsent);
      if (unsent + cost > Math.ceil(left / this.#nodes())) {
        const { remaining, resetMs } = this.#local.peek(kind, id, limit);
        return { ok: false, remaining, resetMs: remaining > 0 && this.connected ? EXCHANGE_MS : resetMs };
      }
    }
    const allowance = this.#local.take(kind, id, limit, cost);
    if (allowance.ok && cost > 0) this.#unsent.set(key, unsent + cost);
    return allowance;
  }

  peek(kind: PayerKind, id: string, limit: number): Allowance {
    return this.#local.peek(kind, id, limit);
  }

  get connected(): boolean {
    return this.#exchange.connected;
  }

  sizes(): CollectionSizes {
    return { ...this.#local.sizes(), redis_rates_unsent: this.#unsent.size };
  }

  /** Synchronises once more if Redis is available. */
  async close(): Promise<void> {
    await this.#exchange.close();
    await this.#local.close();
  }

  /** Adds the charges of this node to the counters and reads the sums. */
  sync(): Promise<void> {
    return this.#exchange.run();
  }

  async #synchronise(): Promise<void> {
    if (!this.connected) return dropExpired(this.#unsent, this.#local);
    const charges = [...this.#unsent].slice(0, BATCH);
    if (charges.length === 0) return;
    const pipeline = this.#exchange.redis.pipeline();
    for (const [key, charge] of charges) {
      const name = rateKey(key);
      pipeline.set(name, 0, 'PX', RATE_WINDOW_MS, 'NX').incrby(name, charge).pttl(name);
    }
    const replies = (await pipeline.exec().catch(() => null)) ?? [];
    const unsent = charges.filter(
      ([key, charge], n) => !this.#applySum(key, charge, replies[COMMANDS * n + 1], replies[COMMANDS * n + 2]),
    );
    // Redis does not answer, or accepts no writes: its memory or its disk is full.
    if (unsent.length > 0) dropExpired(this.#unsent, this.#local);
  }

  /** False without an answer: the charge is sent again, and may be counted twice. */
  #applySum(key: string, charge: number, sum: PipelineReply, leftMs: PipelineReply): boolean {
    const counter = counterOf(sum, leftMs);
    if (counter === null) return false;
    const unsent = (this.#unsent.get(key) ?? 0) - charge;
    if (unsent > 0) this.#unsent.set(key, unsent);
    else this.#unsent.delete(key);
    const { count, leftMs: left } = counter;
    // Expired between two commands, so that the new counter has no expiry.
    if (left < 0) this.#exchange.redis.pexpire(rateKey(key), RATE_WINDOW_MS).catch(() => {});
    const [kind, id] = payerOf(key);
    this.#local.replace(kind, id, count + Math.max(0, unsent), left < 0 ? RATE_WINDOW_MS : left);
    return true;
  }
}
