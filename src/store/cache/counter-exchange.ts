import type { Redis } from 'ioredis';
import type { Lease } from '../../domain/lease.ts';
import type { Milliseconds } from '../../domain/values.ts';
import type { PayerKind } from '../contract/rate-limiter.ts';
import type { MemoryRateLimiter } from './memory-rate-limiter.ts';
import { connectRedis, PREFIX } from './redis-connection.ts';

/** Result of one command of a pipeline. */
export type PipelineReply = [error: Error | null, value: unknown] | undefined;

export const EXCHANGE_MS: Milliseconds = 250;
/** Windows exchanged at a time. */
export const BATCH = 2_000;
/** Number of windows that wait for an exchange from which expired ones are dropped while Redis does not take them. */
const MANY_WAITING = 10_000;

/** The connection of a rate limiter to Redis, over which it exchanges counters four times a second, never twice at a time. */
export class CounterExchange {
  readonly redis: Redis;
  readonly #exchange: () => Promise<void>;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> | null = null;

  /** `exchange` must not reject. Nothing is sent to Redis once `lease` is invalid. */
  constructor(url: string, lease: Lease, exchange: () => Promise<void>) {
    this.redis = connectRedis(url, lease);
    this.#exchange = exchange;
    this.#timer = setInterval(() => void this.run(), EXCHANGE_MS).unref();
  }

  get connected(): boolean {
    return this.redis.status === 'ready';
  }

  /** An exchange now, or the end of the one that is running. */
  run(): Promise<void> {
    this.#running ??= this.#exchange().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** Exchanges once more if Redis is available. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
    await this.run();
    this.redis.disconnect();
  }
}

/** The key of a payer in memory: `<kind> <id>`. */
export const payerKey = (kind: PayerKind, id: string): string => `${kind} ${id}`;

/** The payer of a key. */
export function payerOf(key: string): [PayerKind, string] {
  const gap = key.indexOf(' ');
  return [key.slice(0, gap) as PayerKind, key.slice(gap + 1)];
}

/** Name in Redis of the counter of a payer. */
export const rateKey = (key: string): string => `${PREFIX}rate ${key}`;

/** The counter and the milliseconds until it expires, as two commands have answered; null without an answer. */
export function counterOf(count: PipelineReply, leftMs: PipelineReply): { count: number; leftMs: Milliseconds } | null {
  if (count === undefined || leftMs === undefined || count[0] !== null || leftMs[0] !== null) return null;
  return { count: Number(count[1]), leftMs: Number(leftMs[1]) };
}

/** Drops those of the waiting keys whose window has expired, if there are many. */
export function dropExpired(
  waiting: { size: number; keys(): Iterable<string>; delete(key: string): boolean },
  windows: Pick<MemoryRateLimiter, 'window'>,
): void {
  if (waiting.size < MANY_WAITING) return;
  for (const key of waiting.keys()) if (windows.window(...payerOf(key)) === null) waiting.delete(key);
}
