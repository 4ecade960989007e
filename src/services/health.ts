import { type Clock, elapsedOf } from '../domain/clock.ts';
import type { Cache, Store } from '../store/contract.ts';

/** The parts that `/health` names (specification §4). */
export const partNames = ['api', 'database', 'redis', 'mqtt', 'worker', 'build_service', 'cloud_editor'] as const;
export type PartName = (typeof partNames)[number];
export type PartState = 'operational' | 'degraded' | 'disabled';

export interface HealthReport {
  parts: Record<PartName, PartState>;
  activeDevices: number;
  /** How far the clocks are apart, where it is more than a minute; else null. */
  clock: ClockOffsets | null;
}

export interface ClockOffsets {
  /** The host's wall clock minus the reference (the database's clock where there is one), in milliseconds. */
  hostMs: number;
  /** The reference minus the service's time, in milliseconds. */
  correctionMs: number;
}

export interface Health {
  /** Looked at freshly, but at most once a second however many ask. */
  report(): Promise<HealthReport>;
  /** Seconds since the start. */
  uptime(): number;
}

const FRESH_MS = 1_000;
const PING_TIMEOUT_MS = 1_000;

export function makeHealth(parts: {
  store: Store;
  cache: Cache;
  clock: Clock;
  /** False where the cache is in process: then `redis` is disabled. */
  redis: boolean;
  mqtt(): PartState;
  worker(): PartState;
  /** Null while the clocks are at most a minute apart. */
  clockOffsets(): ClockOffsets | null;
}): Health {
  const { store, cache, clock } = parts;
  const startedAt = elapsedOf(clock);
  let activeDevices = 0;
  let latest: Promise<HealthReport> | null = null;
  let lookedAt = 0;
  let counting: Promise<number> | null = null;

  /** One at a time: counts that take long would else take all of the store's connections. */
  function count(): Promise<number> {
    counting ??= store.devices.countActive().finally(() => {
      counting = null;
    });
    return counting;
  }

  async function database(): Promise<PartState> {
    try {
      await store.ping(PING_TIMEOUT_MS);
    } catch {
      return 'degraded';
    }
    // Counting many devices may take its time: that is no ailment, and the last count will do.
    activeDevices = await withTimeout(PING_TIMEOUT_MS, count()).catch(() => activeDevices);
    return 'operational';
  }

  async function look(): Promise<HealthReport> {
    const state = await database();
    const redis = cache.healthy() ? 'operational' : 'degraded';
    return {
      parts: {
        api: 'operational',
        database: state,
        redis: parts.redis ? redis : 'disabled',
        mqtt: parts.mqtt(),
        worker: parts.worker(),
        // Neither is a part of this service.
        build_service: 'disabled',
        cloud_editor: 'disabled',
      },
      activeDevices,
      clock: parts.clockOffsets(),
    };
  }

  return {
    report() {
      const now = elapsedOf(clock);
      if (latest === null || now - lookedAt >= FRESH_MS) {
        lookedAt = now;
        latest = look();
      }
      return latest;
    },
    uptime: () => (elapsedOf(clock) - startedAt) / 1000,
  };
}

async function withTimeout<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('too late')), milliseconds);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
