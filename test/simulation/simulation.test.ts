import { beforeAll, describe, expect, it } from 'vitest';
import { wholeRun } from './options.ts';
import type { RunResult } from './run.ts';
import { runAll } from './workers.ts';

const SEEDS = 200;
const BATCH = 5;
const WORKERS = 2;
const REPEATED_SEED = 7;

/** Collects what the workers report, and tells who waits for a seed. */
class Results {
  readonly #results = new Map<number, RunResult>();
  readonly #waiting = new Map<number, (result: RunResult) => void>();
  #failure: Error | null = null;

  readonly add = (result: RunResult): void => {
    this.#results.set(result.seed, result);
    this.#waiting.get(result.seed)?.(result);
  };

  fail(error: Error): void {
    this.#failure = error;
  }

  of(seed: number): Promise<RunResult> {
    const result = this.#results.get(seed);
    if (this.#failure !== null) return Promise.reject(this.#failure);
    if (result !== undefined) return Promise.resolve(result);
    return new Promise((resolve) => this.#waiting.set(seed, resolve));
  }
}

const describeFailure = ({ seed, violations: [first], tail }: RunResult): string =>
  [
    `seed ${seed}: ${first?.invariant}: ${first?.detail}`,
    ...tail.slice(-10),
    `again: npm run simulate -- --seed ${seed}`,
  ].join('\n');

describe(`the simulation, seeds 1 to ${SEEDS}`, () => {
  const results = new Results();

  beforeAll(() => {
    const runs = Array.from({ length: SEEDS }, (_, n) => wholeRun(n + 1));
    runAll(runs, WORKERS, results.add).catch((error: Error) => results.fail(error));
  });

  it.each(Array.from({ length: SEEDS / BATCH }, (_, n) => n * BATCH + 1))(
    'violates no invariant from seed %i on',
    async (first) => {
      const batch = await Promise.all(Array.from({ length: BATCH }, (_, n) => results.of(first + n)));
      const failed = batch.filter(({ violations }) => violations.length > 0);
      expect(failed.map(describeFailure)).toEqual([]);
    },
    30_000,
  );

  it('does the same for the same seed, whatever ran before in the process', async () => {
    const hashes: string[] = [];
    await runAll([wholeRun(REPEATED_SEED)], 1, ({ hash }) => void hashes.push(hash));
    expect(hashes).toEqual([(await results.of(REPEATED_SEED)).hash]);
  }, 30_000);
});
