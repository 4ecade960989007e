import { type FaultName, faultNames } from './faults.ts';
import { type PartName, partNames } from './workload/parts.ts';

/** Options of a run besides its seed. The shrinker reduces them. */
export interface RunOptions {
  seed: number;
  /** Duration of the fault phase in virtual milliseconds. */
  stormMs: number;
  /** Null: one or two, by the seed. */
  hosts: 1 | 2 | null;
  parts: readonly PartName[];
  faults: readonly FaultName[];
  /** Maximum number of faults. */
  mostFaults: number;
}

export const DEFAULT_STORM_MS = 30_000;

export const wholeRun = (seed: number, stormMs = DEFAULT_STORM_MS): RunOptions => ({
  seed,
  stormMs,
  hosts: null,
  parts: partNames,
  faults: faultNames,
  mostFaults: 1_000,
});

const MEMORY_EVERY = 4;

/** Whether a run compares memory, which needs two garbage collections and long idle times: a third of its cost. */
export const comparesMemory = (seed: number): boolean => seed % MEMORY_EVERY === 0;
