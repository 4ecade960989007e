import type { EpochMs } from './values.ts';

/** A reading of the database's clock: `databaseNow` was read between `sentAt` and `receivedAt`, both monotonic ms. */
export interface ClockSample {
  sentAt: number;
  receivedAt: number;
  databaseNow: EpochMs;
}

/** Servers' quartz oscillators stay within 100 ppm. The interval of an older sample grows by this rate. */
const DRIFT = 1e-4;

/**
 * Estimate of the database's clock: an interval for its offset from the monotonic clock. Each sample gives an interval
 * (half a round trip either way). Consistent samples are intersected (Marzullo), so a slow answer adds no error. A
 * sample that contradicts the interval means that one of the clocks was stepped; it replaces the interval.
 */
export class DatabaseTime {
  #low: number;
  #high: number;
  #measuredAt: number;

  constructor(first: ClockSample) {
    [this.#low, this.#high] = intervalOf(first);
    this.#measuredAt = first.receivedAt;
  }

  observe(sample: ClockSample): void {
    const [low, high] = intervalOf(sample);
    const drift = Math.max(0, sample.receivedAt - this.#measuredAt) * DRIFT;
    this.#measuredAt = sample.receivedAt;
    const bothLow = Math.max(low, this.#low - drift);
    const bothHigh = Math.min(high, this.#high + drift);
    [this.#low, this.#high] = bothLow <= bothHigh ? [bothLow, bothHigh] : [low, high];
  }

  /** Milliseconds to add to the monotonic clock. */
  get offset(): number {
    return (this.#low + this.#high) / 2;
  }
}

const intervalOf = ({ sentAt, receivedAt, databaseNow }: ClockSample): [number, number] => [
  databaseNow - receivedAt,
  databaseNow - sentAt,
];
