import * as fc from 'fast-check';

/*
 * fast-check with one seed for all properties, so that each test run uses the same inputs. `npm run test:properties` uses new
 * seeds, and `SEED=…` repeats one.
 */

const FIXED_SEED = 20_261_122;

export const seed = process.env.SEED === undefined ? FIXED_SEED : Number(process.env.SEED);
if (!Number.isInteger(seed)) throw new Error(`SEED must be an integer, not "${process.env.SEED}"`);

fc.configureGlobal({ seed });

/** Number of runs of an expensive property: `few` in a normal test run, ten times as many with another seed. */
export const runs = (few: number): { numRuns: number } => ({ numRuns: seed === FIXED_SEED ? few : 10 * few });

/**
 * Checks how often a property reached its cases, so that it cannot silently test nothing. Only the fixed seed gives the
 * same counts in each run; with another seed they are not checked.
 */
export function expectReached(check: () => void): void {
  if (seed === FIXED_SEED) check();
}

export { fc };
