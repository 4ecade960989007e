import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import { type Allowance, type PayerKind, RATE_WINDOW_MS, type RateLimiter } from '../contract/rate-limiter.ts';
import {
  BATCH,
  CounterExchange,
  counterOf,
  dropExpired,
  type PipelineReply,
  payerKey,
  payerOf,
  rateKey,
} from './counter-exchange.ts';
import { MemoryRateLimiter } from './memory-rate-limiter.ts';

/** Maximum number of payers whose earlier window is read at a time; beyond it, earlier windows are ignored. */
const MAX_RESTORING = 50_000;

/**
 * Rate limiter with the windows of this process, copied to Redis for the next process
 * (docs/decisions/0009-in-process-rate-limiting.md). Requests never wait for Redis; without it, the local
 * counts are used.
 */
export class RedisRateLimiter implements RateLimiter {
  readonly #local: MemoryRateLimiter;
  readonly #exchange: CounterExchange;
  readonly #clock: Clock;
  /** After one window's length, all windows of an earlier process have expired. */
  readonly #restoresUntil: number;
  readonly #changed = new Set<string>();
  /** Payers whose earlier window is being read; they are not copied until it is known. */
  readonly #restoring = new Set<string>();
  readonly #restoreQueue: string[] = [];

  /** Nothing is sent to Redis once `lease` is invalid. */
  constructor(url: string, clock: Clock, lease: Lease) {
    this.#local = new MemoryRateLimiter(clock);
    this.#clock = clock;
    this.#restoresUntil = performance.now() + RATE_WINDOW_MS;
    this.#exchange = new CounterExchange(url, lease, () => this.#copy());
  }

  take(kind: PayerKind, id: string, limit: number, cost = 1): Allowance {
    const key = payerKey(kind, id);
    if (performance.now() < this.#restoresUntil && this.#local.window(kind, id) === null) this.#requestRestore(key);
    const allowance = this.#local.take(kind, id, limit, cost);
    if (allowance.ok && cost > 0) this.#changed.add(key);
    return allowance;
  }

  peek(kind: PayerKind, id: string, limit: number): Allowance {
    return this.#local.peek(kind, id, limit);
  }

  get connected(): boolean {
    return this.#exchange.connected;
  }

  sizes(): CollectionSizes {
    return {
      ...this.#local.sizes(),
      redis_rates_changed: this.#changed.size,
      redis_rates_asked: this.#restoring.size,
      redis_rates_asking: this.#restoreQueue.length,
    };
  }

  /** Writes a last copy if Redis is available. */
  async close(): Promise<void> {
    await this.#exchange.close();
    await this.#local.close();
  }

  #requestRestore(key: string): void {
    if (this.#restoring.has(key) || this.#restoring.size >= MAX_RESTORING) return;
    this.#restoring.add(key);
    if (this.#restoreQueue.push(key) === 1) setImmediate(() => void this.#restoreWindows());
  }

  /** False if Redis is unavailable or does not answer; the next copy retries. */
  async #restoreWindows(): Promise<boolean> {
    while (this.#restoreQueue.length > 0) {
      if (!this.connected) return false;
      const keys = this.#restoreQueue.splice(0, BATCH);
      const pipeline = this.#exchange.redis.pipeline();
      for (const key of keys) pipeline.get(rateKey(key)).pttl(rateKey(key));
      const answers = (await pipeline.exec().catch(() => null)) ?? [];
      const unanswered = keys.filter((key, n) => !this.#applyRestored(key, answers[2 * n], answers[2 * n + 1]));
      this.#restoreQueue.push(...unanswered);
      if (unanswered.length > 0) return false;
    }
    return this.connected;
  }

  #applyRestored(key: string, used: PipelineReply, leftMs: PipelineReply): boolean {
    const counter = counterOf(used, leftMs);
    if (counter === null) return false;
    if (counter.count > 0 && counter.leftMs > 0 && this.#restoring.has(key))
      this.#local.adopt(...payerOf(key), counter.count, counter.leftMs);
    this.#restoring.delete(key);
    return true;
  }

  async #copy(): Promise<void> {
    if (this.#restoring.size > 0 && performance.now() >= this.#restoresUntil) {
      this.#restoring.clear();
      this.#restoreQueue.length = 0;
    }
    if (!(await this.#restoreWindows())) return dropExpired(this.#changed, this.#local);
    const keys: string[] = [];
    const pipeline = this.#exchange.redis.pipeline();
    for (const key of this.#changed) {
      if (this.#restoring.has(key)) continue;
      if (keys.length >= BATCH) break;
      this.#changed.delete(key);
      const window = this.#local.window(...payerOf(key));
      if (window === null) continue;
      keys.push(key);
      pipeline.set(rateKey(key), window.used, 'PX', Math.max(1, Math.ceil(window.endsAt - this.#clock.now())));
    }
    if (keys.length === 0) return;
    const answers = await pipeline.exec().catch(() => null);
    const uncopied = keys.filter((_, n) => answers?.[n]?.[1] !== 'OK');
    for (const key of uncopied) this.#changed.add(key);
    if (uncopied.length > 0) dropExpired(this.#changed, this.#local);
  }
}
