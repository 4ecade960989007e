import type { Clock } from '../../../src/domain/clock.ts';
import { RATE_WINDOW_MS, type RateLimiter } from '../../../src/store/contract/rate-limiter.ts';
import type { World } from '../world/world.ts';

interface Window {
  used: number;
  endsAt: number;
}

/** The rate limits of a process; each decision is compared with an independent count. */
export function checkedRates(world: World, clock: Clock, rates: RateLimiter): RateLimiter {
  const windows = new Map<string, Window>();
  return {
    take(kind, id, limit, cost = 1) {
      const now = clock.now();
      const payer = `${kind} ${id}`;
      const known = windows.get(payer);
      const window = known !== undefined && now < known.endsAt ? known : { used: 0, endsAt: now + RATE_WINDOW_MS };
      windows.set(payer, window);
      const allowance = rates.take(kind, id, limit, cost);
      const allowed = window.used + cost <= limit;
      if (allowed !== allowance.ok) {
        const what = allowance.ok ? 'allowed' : 'refused';
        world.fail(
          'flags-and-rate-limits-are-enforced',
          `request ${window.used + cost} of ${limit} a minute of ${payer} was ${what}`,
        );
      }
      if (allowed) window.used += cost;
      return allowance;
    },
    peek: (kind, id, limit) => rates.peek(kind, id, limit),
    sizes: () => rates.sizes(),
    close: () => rates.close(),
  };
}

interface Bucket {
  tokens: number;
  at: number;
}

/** Messages that a process reads from devices, compared with the rate limit of a device. */
export class DeviceRateInvariant {
  readonly #world: World;
  readonly #rate: { perSecond: number; burst: number };
  readonly #buckets = new Map<string, Bucket>();

  constructor(world: World, rate: { perSecond: number; burst: number }) {
    this.#world = world;
    this.#rate = rate;
  }

  read(deviceId: string): void {
    const { perSecond, burst } = this.#rate;
    const now = this.#world.scheduler.now;
    const bucket = this.#buckets.get(deviceId) ?? { tokens: burst, at: now };
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.at) * perSecond) / 1_000) - 1;
    bucket.at = now;
    this.#buckets.set(deviceId, bucket);
    if (bucket.tokens < -ROUNDING) {
      this.#world.fail(
        'flags-and-rate-limits-are-enforced',
        `a message of ${deviceId} was read beyond ${perSecond} a second`,
      );
    }
  }
}

const ROUNDING = 0.001;
