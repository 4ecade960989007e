import { type Clock, elapsedOf } from '../domain/clock.ts';
import type { Cache, Store } from '../store/contract.ts';

/** The parts listed by `/health` (specification §4). */
export const partNames = ['api', 'database', 'redis', 'mqtt', 'worker', 'build_service', 'cloud_editor'] as const;
export type PartName = (typeof partNames)[number];
export const partStates = ['operational', 'degraded', 'disabled'] as const;
export type PartState = (typeof partStates)[number];

export interface HealthReport {
  parts: Record<PartName, PartState>;
  activeDevices: number;
  /** The clock offsets if they exceed one minute, else null. */
  clock: ClockOffsets | null;
}

export interface ClockOffsets {
  /** The host's wall clock minus the reference (the database's clock where there is one), in milliseconds. */
  hostMs: number;
  /** The reference minus the service's time, in milliseconds. */
  correctionMs: number;
}

export interface HealthParts {
  store: Store;
  cache: Cache;
  clock: Clock;
  /** False without Redis: `redis` is then reported as disabled. */
  redis: boolean;
  mqtt(): PartState;
  worker(): PartState;
  /** True from the request to stop on. */
  stopping(): boolean;
  /** Null while the clocks are at most one minute apart. */
  clockOffsets(): ClockOffsets | null;
}

const FRESH_MS = 1_000;
const PING_TIMEOUT_MS = 1_000;

/** Health checks of the service's parts. */
export class Health {
  readonly #parts: HealthParts;
  readonly #startedAt: number;
  #activeDevices = 0;
  #latest: Promise<HealthReport> | null = null;
  #checkedAt = 0;
  #counting: Promise<number> | null = null;

  constructor(parts: HealthParts) {
    this.#parts = parts;
    this.#startedAt = elapsedOf(parts.clock);
  }

  /** A current report; concurrent and repeated calls share one check a second. */
  report(): Promise<HealthReport> {
    const now = elapsedOf(this.#parts.clock);
    if (this.#latest === null || now - this.#checkedAt >= FRESH_MS) {
      this.#checkedAt = now;
      this.#latest = this.#check();
    }
    return this.#latest;
  }

  /** True from the request to stop on: requests are served for a while, but a balancer must send no more. */
  stopping(): boolean {
    return this.#parts.stopping();
  }

  /** Seconds since the process started. */
  uptime(): number {
    return (elapsedOf(this.#parts.clock) - this.#startedAt) / 1000;
  }

  async #check(): Promise<HealthReport> {
    const { cache, redis, mqtt, worker, clockOffsets } = this.#parts;
    const database = await this.#checkDatabase();
    const cacheState = cache.healthy() ? 'operational' : 'degraded';
    return {
      parts: {
        api: 'operational',
        database,
        redis: redis ? cacheState : 'disabled',
        mqtt: mqtt(),
        worker: worker(),
        // Not part of this service.
        build_service: 'disabled',
        cloud_editor: 'disabled',
      },
      activeDevices: this.#activeDevices,
      clock: clockOffsets(),
    };
  }

  async #checkDatabase(): Promise<PartState> {
    try {
      await this.#parts.store.ping(PING_TIMEOUT_MS);
    } catch {
      return 'degraded';
    }
    // A slow count of many devices does not degrade the database's state; the last count is reported.
    this.#activeDevices = await withTimeout(PING_TIMEOUT_MS, this.#countDevices()).catch(() => this.#activeDevices);
    return 'operational';
  }

  /** One query at a time: slow counts would otherwise use up the store's connections. */
  #countDevices(): Promise<number> {
    this.#counting ??= this.#parts.store.devices.countActive().finally(() => {
      this.#counting = null;
    });
    return this.#counting;
  }
}

async function withTimeout<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(() => timeout.reject(new Error('timed out')), milliseconds);
  try {
    return await Promise.race([work, timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
