import { afterAll, beforeAll, describe, inject, it } from 'vitest';
import { Nemesis, Violation } from './nemesis.ts';
import { randomFrom, reportStage, type StageResult, stagesFrom } from './stages.ts';

/** A pause of a minute and the longest wait for progress, of which there are several in turn. */
const ROUND_MS = 300_000;
const START_MS = 600_000;

if (inject('postgresUrl') === null) throw new Error('PostgreSQL is not installed');

describe.each(stagesFrom(process.env))('three nodes with faults, seed $seed, $timing.name', (stage) => {
  const { seed, rounds, timing, faults } = stage;
  const random = randomFrom(seed);
  const result: StageResult = {
    ...{ seed, timing: timing.name, rounds: 0, verified: false },
    ...{ violation: null, failure: null },
  };
  let nemesis: Nemesis | null = null;

  function recordFailure(error: Error): void {
    if (error instanceof Violation) result.violation = error.message;
    else result.failure = error.message;
    process.stdout.write(`seed ${seed}: ${error.message}\nOutput of the nodes: ${nemesis?.folder ?? 'none'}\n`);
  }

  /** After a failure the state of the nodes says nothing more. */
  async function unlessFailed(work: (started: Nemesis) => Promise<void>): Promise<void> {
    if (nemesis === null || result.violation !== null || result.failure !== null)
      throw new Error('ended by an earlier failure');
    await work(nemesis).catch((error: Error) => {
      recordFailure(error);
      throw error;
    });
  }

  beforeAll(async () => {
    nemesis = await Nemesis.start({ nodes: 3, tenants: 3, timing }).catch((error: Error) => {
      recordFailure(error);
      throw error;
    });
  }, START_MS);
  afterAll(async () => {
    await nemesis?.close();
    if (result.violation === null && result.failure === null) nemesis?.removeLogs();
    reportStage(result);
  }, START_MS);

  it.each(Array.from({ length: rounds }, (_, n) => n + 1))(
    'round %i: only owners write, nothing is done twice or read as it was before, and all make progress',
    (n) =>
      unlessFailed(async (started) => {
        await started.round(random, faults);
        result.rounds = n;
        process.stdout.write(`seed ${seed}, round ${n}: ${started.log.at(-1)}\n`);
      }),
    ROUND_MS,
  );

  it(
    'lose nothing that was acknowledged, and do nothing twice',
    () =>
      unlessFailed(async (started) => {
        await started.verify();
        result.verified = true;
      }),
    ROUND_MS,
  );
});
