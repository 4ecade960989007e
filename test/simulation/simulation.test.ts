import { beforeAll, describe, expect, it } from 'vitest';
import { slow } from '../support/slow.ts';
import { adviceOf } from './commands.ts';
import { type RunOptions, wholeRun } from './options.ts';
import type { RunResult } from './run.ts';
import { runAll, shrunk } from './workers.ts';

/** `.ci/run` sets 200. */
const SEEDS = Number(process.env.SIMULATION_SEEDS ?? 48);
const BATCH = 4;
const WORKERS = 2;
const REPEATED_SEED = 7;

/** The results of the workers by seed, as promises that settle when a worker reports or fails. */
class Results {
  readonly #results = new Map<number, PromiseWithResolvers<RunResult>>();

  constructor(seeds: readonly number[]) {
    for (const seed of seeds) {
      const result = Promise.withResolvers<RunResult>();
      result.promise.catch(() => {}); // the test that awaits it fails
      this.#results.set(seed, result);
    }
  }

  readonly add = (result: RunResult): void => this.#results.get(result.seed)?.resolve(result);

  fail(error: Error): void {
    for (const { reject } of this.#results.values()) reject(error);
  }

  of(seed: number): Promise<RunResult> {
    return (this.#results.get(seed) as PromiseWithResolvers<RunResult>).promise;
  }
}

const describeFailure = ({ seed, violations: [first], tail }: RunResult): string =>
  [`seed ${seed}: ${first?.invariant}: ${first?.detail}`, ...tail.slice(-10), ...adviceOf(wholeRun(seed))].join('\n');

describe(`the simulation, seeds 1 to ${SEEDS}`, () => {
  const seeds = Array.from({ length: SEEDS }, (_, n) => n + 1);
  const results = new Results(seeds);

  beforeAll(async () => {
    const runs = seeds.map((seed) => wholeRun(seed));
    runAll(runs, WORKERS, results.add).catch((error: Error) => results.fail(error));
    // Loading the service in the workers takes seconds, which must not count towards the timeout of the first batch.
    await results.of(seeds[0] as number);
  });

  it.each(Array.from({ length: SEEDS / BATCH }, (_, n) => n * BATCH + 1))(
    'violates no invariant from seed %i on',
    slow,
    async (first) => {
      const batch = await Promise.all(Array.from({ length: BATCH }, (_, n) => results.of(first + n)));
      const failed = batch.filter(({ violations }) => violations.length > 0);
      expect(failed.map(describeFailure)).toEqual([]);
    },
  );

  it('gives the same trace for the same seed, independent of earlier runs in the process', slow, async () => {
    const hashes: string[] = [];
    await runAll([wholeRun(REPEATED_SEED)], 1, ({ hash }) => void hashes.push(hash));
    expect(hashes).toEqual([(await results.of(REPEATED_SEED)).hash]);
  });
});

describe('a run that fails because of a planted defect', () => {
  const defect = 'deadline-too-early';
  const invariant = 'timers-fire-once';
  const whole: RunOptions = { ...wholeRun(1, 8_000), parts: ['reports', 'commands', 'plans', 'reads'] };
  let smallest = whole;

  it('is shrunk to a smaller one', slow, async () => {
    smallest = await shrunk(whole, invariant, { defect });
    expect(smallest.parts.length).toBeLessThan(whole.parts.length);
    expect(smallest.faults).toEqual([]);
    expect(smallest.stormMs).toBeLessThan(whole.stormMs);
  });

  it('fails in the same way each time the shrunk run is repeated', slow, async () => {
    const replays: RunResult[] = [];
    await runAll([smallest, smallest], 1, (result) => void replays.push(result), { defect });
    expect(replays.map(({ violations: [first] }) => first?.invariant)).toEqual([invariant, invariant]);
    expect(replays[0]?.hash).toBe(replays[1]?.hash);
  });
});
