import type { EpochMs } from './values.ts';

/** The one source of time. Tests pass one that they move. */
export interface Clock {
  now(): EpochMs;
}

export const systemClock: Clock = { now: () => Date.now() };
