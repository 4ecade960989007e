import type { Milliseconds } from './values.ts';

/** Limits of an exponential back-off: the delay is `firstMs` after one failure, doubles with each further one, and stays at `maxMs`. */
export interface BackoffLimits {
  firstMs: Milliseconds;
  maxMs: Milliseconds;
}

/**
 * The random part of each delay: none, its second half, or all of it. Clients that lost the same connection need jitter,
 * or they all return at once.
 */
export type Jitter = 'none' | 'half' | 'full';

const randomShares: Readonly<Record<Jitter, number>> = { none: 0, half: 0.5, full: 1 };

/** Doubling further than this exceeds every limit; it keeps the power finite. */
const MAX_DOUBLINGS = 30;

/** The delay after the n-th failure in a row; `failures` counts from 1. `random` returns a number from 0 to below 1. */
export function backoffDelay(
  failures: number,
  { firstMs, maxMs }: BackoffLimits,
  jitter: Jitter = 'none',
  random: () => number = Math.random,
): Milliseconds {
  const delay = Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, MAX_DOUBLINGS));
  const share = randomShares[jitter];
  return share === 0 ? delay : delay * (1 - share) + delay * share * random();
}
