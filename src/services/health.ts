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

export interface Health {
  /** A current report; concurrent and repeated calls share one check a second. */
  report(): Promise<HealthReport>;
  /** Seconds since the process started. */
  uptime(): number;
}

const FRESH_MS = 1_000;
const PING_TIMEOUT_MS = 1_000;

export function makeHealth(parts: {
  store: Store;
  cache: Cache;
  clock: Clock;
  /** False with the in-process cache: `redis` is then reported as disabled. */
  redis: boolean;
  mqtt(): PartState;
  worker(): PartState;
  /** Null while the clocks are at most one minute apart. */
  clockOffsets(): ClockOffsets | null;
}): Health {
  const { store, cache, clock } = parts;
  const startedAt = elapsedOf(clock);
  let activeDevices = 0;
  let latest: Promise<HealthReport> | null = null;
  let checkedAt = 0;
  let counting: Promise<number> | null = null;

  /** One query at a time: slow counts would otherwise use up the store's connections. */
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
    // A slow count of many devices does not degrade the database's state; the last count is reported.
    activeDevices = await withTimeout(PING_TIMEOUT_MS, count()).catch(() => activeDevices);
    return 'operational';
  }

  async function check(): Promise<HealthReport> {
    const state = await database();
    const redis = cache.healthy() ? 'operational' : 'degraded';
    return {
      parts: {
        api: 'operational',
        database: state,
        redis: parts.redis ? redis : 'disabled',
        mqtt: parts.mqtt(),
        worker: parts.worker(),
        // Not part of this service.
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
      if (latest === null || now - checkedAt >= FRESH_MS) {
        checkedAt = now;
        latest = check();
      }
      return latest;
    },
    uptime: () => (elapsedOf(clock) - startedAt) / 1000,
  };
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
