import type { EpochMs } from './values.ts';

/** The one source of time. Tests pass one that they move. A clock that is never corrected needs `now` alone. */
export interface Clock {
  /** Never goes backwards: for deadlines, order, and whatever is stored. */
  now(): EpochMs;
  /** Monotonic milliseconds with an arbitrary origin, untouched by corrections: for durations. */
  elapsed?(): number;
  /**
   * The best known civil time, which may go back when it is corrected: for comparison with timestamps that another host
   * made (CONNECT tokens, device messages, JWT), and for telling other hosts the time.
   */
  reference?(): EpochMs;
}

export const systemClock: Clock = { now: () => Date.now() };

export const elapsedOf = (clock: Clock): number => clock.elapsed?.() ?? clock.now();

export const referenceOf = (clock: Clock): EpochMs => clock.reference?.() ?? clock.now();
