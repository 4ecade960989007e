import type { Redis } from 'ioredis';
import type { Clock } from '../../domain/clock.ts';
import { type Allowance, type PayerKind, RATE_WINDOW_MS, type Rates } from '../contract/rates.ts';
import { MemoryRates } from './memory-rates.ts';
import { connectRedis, PREFIX } from './redis-connection.ts';

const COPY_MS = 250;
/** Windows copied at a time. */
const BATCH = 2_000;
/** Changed windows beyond which those that are over are looked for while Redis is away. */
const MANY_CHANGED = 10_000;

/**
 * The windows of this process, with a copy in Redis for the process after it
 * (docs/decisions/0009-rates-are-counted-in-the-process.md). Nobody waits for Redis, and without it the process goes on
 * with what it counted.
 */
export class RedisRates implements Rates {
  private readonly local: MemoryRates;
  private readonly redis: Redis;
  private readonly clock: Clock;
  /** After one window no process before this one can have left anything. */
  private readonly learnsUntil: number;
  private readonly changed = new Set<string>();
  /** Payers whose earlier window is being asked for; they are not copied meanwhile. */
  private readonly asked = new Set<string>();
  private readonly asking: string[] = [];
  private readonly timer: NodeJS.Timeout;
  private copying: Promise<void> = Promise.resolve();

  constructor(url: string, clock: Clock) {
    this.local = new MemoryRates(clock);
    this.clock = clock;
    this.redis = connectRedis(url);
    this.learnsUntil = performance.now() + RATE_WINDOW_MS;
    this.timer = setInterval(() => {
      this.copying = this.copying.then(() => this.copy());
    }, COPY_MS).unref();
  }

  take(kind: PayerKind, id: string, limit: number, cost = 1): Allowance {
    const key = `${kind} ${id}`;
    if (performance.now() < this.learnsUntil && this.local.window(kind, id) === null) this.ask(key);
    const allowance = this.local.take(kind, id, limit, cost);
    if (allowance.ok && cost > 0) this.changed.add(key);
    return allowance;
  }

  look(kind: PayerKind, id: string, limit: number): Allowance {
    return this.local.look(kind, id, limit);
  }

  get connected(): boolean {
    return this.redis.status === 'ready';
  }

  /** Leaves a last copy, where Redis takes it. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.copying;
    await this.copy();
    this.redis.disconnect();
    await this.local.close();
  }

  private ask(key: string): void {
    if (this.asked.has(key)) return;
    this.asked.add(key);
    if (this.asking.push(key) === 1) setImmediate(() => void this.learn());
  }

  /** Where Redis is not there yet, the next copy asks again. */
  private async learn(): Promise<void> {
    if (!this.connected || this.asking.length === 0) return;
    const keys = this.asking.splice(0);
    const pipeline = this.redis.pipeline();
    for (const key of keys) pipeline.get(nameOf(key)).pttl(nameOf(key));
    const answers = (await pipeline.exec().catch(() => null)) ?? [];
    for (const [n, key] of keys.entries()) {
      const used = Number(answers[2 * n]?.[1] ?? 0);
      const leftMs = Number(answers[2 * n + 1]?.[1] ?? 0);
      if (used > 0 && leftMs > 0) this.local.adopt(...payerOf(key), used, leftMs);
      this.asked.delete(key);
    }
  }

  private async copy(): Promise<void> {
    if (this.asked.size > 0 && performance.now() >= this.learnsUntil) {
      this.asked.clear();
      this.asking.length = 0;
    }
    await this.learn();
    if (!this.connected) return this.forgetOver();
    const keys: string[] = [];
    const pipeline = this.redis.pipeline();
    for (const key of this.changed) {
      if (this.asked.has(key)) continue;
      if (keys.length >= BATCH) break;
      this.changed.delete(key);
      const window = this.local.window(...payerOf(key));
      if (window === null) continue;
      keys.push(key);
      pipeline.set(nameOf(key), window.used, 'PX', Math.max(1, Math.ceil(window.endsAt - this.clock.now())));
    }
    if (keys.length === 0) return;
    const answers = await pipeline.exec().catch(() => null);
    for (const [n, key] of keys.entries()) if (answers?.[n]?.[1] !== 'OK') this.changed.add(key);
  }

  private forgetOver(): void {
    if (this.changed.size < MANY_CHANGED) return;
    for (const key of this.changed) if (this.local.window(...payerOf(key)) === null) this.changed.delete(key);
  }
}

const nameOf = (key: string): string => `${PREFIX}rate ${key}`;

function payerOf(key: string): [PayerKind, string] {
  const gap = key.indexOf(' ');
  return [key.slice(0, gap) as PayerKind, key.slice(gap + 1)];
}
