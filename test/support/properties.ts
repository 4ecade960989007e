import * as fc from 'fast-check';

/*
 * fast-check with one seed for all properties, so that a run of the tests tries the same inputs each time. `npm run hunt`
 * tries fresh ones, and `SEED=…` repeats a run of it.
 */

const FIXED_SEED = 20_261_122;

export const seed = process.env.SEED === undefined ? FIXED_SEED : Number(process.env.SEED);
if (!Number.isInteger(seed)) throw new Error(`SEED must be an integer, not "${process.env.SEED}"`);

fc.configureGlobal({ seed });

/** Tries of a property that is costly: `few` in each run of the tests, ten times as many on another seed. */
export const runs = (few: number): { numRuns: number } => ({ numRuns: seed === FIXED_SEED ? few : 10 * few });

/**
 * Checks how often a property reached its cases, so that it cannot become one that tries nothing. Only on the fixed
 * seed is that the same in each run; on another the counts are left to chance and not looked at.
 */
export function expectReached(check: () => void): void {
  if (seed === FIXED_SEED) check();
}

export { fc };
