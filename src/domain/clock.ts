import type { EpochMs } from './values.ts';

/** The source of time, passed in everywhere; tests pass a clock they control. An uncorrected clock needs only `now`. */
export interface Clock {
  /** Never goes backwards: for deadlines, ordering and stored times. */
  now(): EpochMs;
  /** Monotonic milliseconds with an arbitrary origin, unaffected by corrections: for durations. */
  elapsed?(): number;
  /**
   * The best known civil time, which may go backwards when corrected: for comparison with timestamps of other hosts
   * (CONNECT tokens, device messages, JWT), and for timestamps sent to them.
   */
  reference?(): EpochMs;
}

export const systemClock: Clock = { now: () => Date.now() };

export const elapsedOf = (clock: Clock): number => clock.elapsed?.() ?? clock.now();

export const referenceOf = (clock: Clock): EpochMs => clock.reference?.() ?? clock.now();
