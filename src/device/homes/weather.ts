import type { EpochMs } from '../../domain/values.ts';

const DAY_MS = 86_400_000;

/** A mild day, every day: warmest at 15:00 UTC, coldest twelve hours before. */
export function outsideCelsius(at: EpochMs): number {
  return 9 + 5 * Math.cos((2 * Math.PI * (at - 15 * 3_600_000)) / DAY_MS);
}

/** Light through a window in lux: none at night, most at noon. */
export function daylightLux(at: EpochMs): number {
  return Math.max(0, 800 * Math.cos((2 * Math.PI * (at - 12 * 3_600_000)) / DAY_MS));
}
