import { appendFileSync } from 'node:fs';
import { type NodeTiming, timings } from './cluster.ts';
import { faultNames, quickFaults, type Random } from './faults.ts';

/** Rounds on one set of nodes and one database. The seed determines the faults and the timing. */
export interface Stage {
  seed: number;
  rounds: number;
  timing: NodeTiming;
  faults: readonly string[];
}

/** Mulberry32: the same faults for the same seed. */
export function randomFrom(start: number): Random {
  let state = start >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const ROUNDS_OF_A_STAGE = 20;
/** Part of the stages whose nodes have the product's lease. Their rounds take three times as long. */
const PRODUCT_SHARE = 0.25;

/** A short form for each change of the project: faults that are over within seconds, and a fixed seed for each stage. */
const shortForm: readonly Stage[] = [
  { seed: 60, rounds: 9, timing: timings.short, faults: [...quickFaults, 'pause around the lease', 'database slow'] },
  { seed: 121, rounds: 5, timing: timings.product, faults: quickFaults.filter((name) => !name.includes('lease')) },
];

/** From the environment that `scripts/nemesis.ts` sets. */
export function stagesFrom(env: Readonly<Record<string, string | undefined>>): Stage[] {
  if (env.ROUNDS === undefined) return [...shortForm];
  const names = env.FAULTS?.split(',') ?? faultNames;
  const unknown = names.filter((name) => !faultNames.includes(name));
  if (unknown.length > 0) throw new Error(`unknown faults: ${unknown.join(', ')}. Known: ${faultNames.join(', ')}`);
  const rounds = Number(env.ROUNDS);
  const first = Number(env.SEED);
  return Array.from({ length: Math.ceil(rounds / ROUNDS_OF_A_STAGE) }, (_, n) => ({
    seed: first + n,
    rounds: Math.min(ROUNDS_OF_A_STAGE, rounds - n * ROUNDS_OF_A_STAGE),
    timing: randomFrom(~(first + n))() < PRODUCT_SHARE ? timings.product : timings.short,
    faults: names,
  }));
}

/** One line of the file in `RESULTS`, which `scripts/nemesis.ts` counts. */
export interface StageResult {
  seed: number;
  timing: string;
  /** Completed rounds. */
  rounds: number;
  /** Final comparison completed. */
  verified: boolean;
  violation: string | null;
  /** Another failure, such as no progress. */
  failure: string | null;
}

export function reportStage(result: StageResult): void {
  if (process.env.RESULTS !== undefined) appendFileSync(process.env.RESULTS, `${JSON.stringify(result)}\n`);
}
