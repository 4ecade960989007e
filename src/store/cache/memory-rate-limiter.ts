import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { EpochMs } from '../../domain/values.ts';
import { type Allowance, type PayerKind, RATE_WINDOW_MS, type RateLimiter } from '../contract/rate-limiter.ts';

export interface RateWindow {
  used: number;
  endsAt: EpochMs;
}

/** Maximum number of windows per kind of payer, so that a flood of addresses evicts only windows of that kind. */
const MAX_WINDOWS = 50_000;

/** Rate limiter with the windows of this process. */
export class MemoryRateLimiter implements RateLimiter {
  // In order of opening, which is also the order of expiry.
  readonly #pools: Readonly<Record<PayerKind, Map<string, RateWindow>>> = {
    tenant: new Map(),
    user: new Map(),
    session: new Map(),
    address: new Map(),
    credential: new Map(),
    client: new Map(),
    'sign-in': new Map(),
  };
  readonly #clock: Clock;
  readonly #max: number;

  constructor(clock: Clock, max = MAX_WINDOWS) {
    this.#clock = clock;
    this.#max = max;
  }

  take(kind: PayerKind, id: string, limit: number, cost = 1): Allowance {
    const now = this.#clock.now();
    const window = this.#running(kind, id, now) ?? this.#open(kind, id, { used: 0, endsAt: now + RATE_WINDOW_MS });
    const ok = window.used + cost <= limit;
    if (ok) window.used += cost;
    return { ok, remaining: Math.max(0, limit - window.used), resetMs: window.endsAt - now };
  }

  peek(kind: PayerKind, id: string, limit: number): Allowance {
    const now = this.#clock.now();
    const window = this.#running(kind, id, now);
    const remaining = Math.max(0, limit - (window?.used ?? 0));
    return { ok: remaining > 0, remaining, resetMs: window === null ? RATE_WINDOW_MS : window.endsAt - now };
  }

  /** The open window, without a charge. */
  window(kind: PayerKind, id: string): Readonly<RateWindow> | null {
    return this.#running(kind, id, this.#clock.now());
  }

  /** Adds charges from an earlier process, whose window ends in `leftMs`. */
  adopt(kind: PayerKind, id: string, used: number, leftMs: number): void {
    const now = this.#clock.now();
    const endsAt = now + Math.min(leftMs, RATE_WINDOW_MS);
    const window = this.#running(kind, id, now) ?? this.#open(kind, id, { used: 0, endsAt });
    window.used += used;
    window.endsAt = Math.min(window.endsAt, endsAt);
  }

  /** Sets the charges of an open window, which ends in `leftMs`; without a window, has no effect. */
  replace(kind: PayerKind, id: string, used: number, leftMs: number): void {
    const now = this.#clock.now();
    const window = this.#running(kind, id, now);
    if (window === null) return;
    window.used = used;
    window.endsAt = now + Math.min(leftMs, RATE_WINDOW_MS);
  }

  size(kind: PayerKind): number {
    return this.#pools[kind].size;
  }

  sizes(): CollectionSizes {
    return { rate_windows: Object.values(this.#pools).reduce((sum, pool) => sum + pool.size, 0) };
  }

  async close(): Promise<void> {
    for (const pool of Object.values(this.#pools)) pool.clear();
  }

  #running(kind: PayerKind, id: string, now: EpochMs): RateWindow | null {
    const window = this.#pools[kind].get(id);
    if (window === undefined) return null;
    // A window that ends later than one opened now was opened before the clock was set back.
    if (now < window.endsAt && window.endsAt <= now + RATE_WINDOW_MS) return window;
    this.#pools[kind].delete(id);
    return null;
  }

  #open(kind: PayerKind, id: string, window: RateWindow): RateWindow {
    const pool = this.#pools[kind];
    const now = this.#clock.now();
    for (const [oldest, { endsAt }] of pool) {
      if (now < endsAt && pool.size < this.#max) break;
      pool.delete(oldest);
    }
    pool.set(id, window);
    return window;
  }
}
