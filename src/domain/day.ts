import type { EpochMs, Milliseconds } from './values.ts';

export const DAY_MS: Milliseconds = 86_400_000;

/** The number of the day since 1970, in UTC. */
export const dayOf = (time: EpochMs): number => Math.floor(time / DAY_MS);
