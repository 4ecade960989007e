import type { EpochMs } from '../../domain/values.ts';

const DAY_MS = 86_400_000;

/** Outside temperature, the same every day: 14 °C at 15:00 UTC, 4 °C at 03:00 UTC. */
export function outsideCelsius(at: EpochMs): number {
  return 9 + 5 * Math.cos((2 * Math.PI * (at - 15 * 3_600_000)) / DAY_MS);
}

/** Daylight in lux: 0 at night, 800 at 12:00 UTC. */
export function daylightLux(at: EpochMs): number {
  return Math.max(0, 800 * Math.cos((2 * Math.PI * (at - 12 * 3_600_000)) / DAY_MS));
}
