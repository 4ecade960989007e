import { json } from 'node:stream/consumers';
import type { RunOptions } from './options.ts';
import { type RunResult, run } from './run.ts';
import { makeKeys } from './service/fixtures.ts';
import { shrink } from './shrink.ts';
import { installGlobals } from './world/globals.ts';

/** The job of a worker, as JSON on its standard input. */
export type Job =
  /**
   * Runs each option set and prints its result; `trace` also prints the trace, and `stopAtFirst` ends at the first
   * violation.
   */
  | { kind: 'run'; runs: RunOptions[]; trace: boolean; stopAtFirst: boolean }
  /** Looks for the smallest options that violate the same invariant. */
  | { kind: 'shrink'; options: RunOptions; invariant: string };

export type Report = { kind: 'result'; result: RunResult } | { kind: 'shrunk'; options: RunOptions };

const job = (await json(process.stdin)) as Job;
const keys = await makeKeys();
installGlobals();
const report = (one: Report) => process.stdout.write(`${JSON.stringify(one)}\n`);

if (job.kind === 'run') {
  const print = job.trace ? (line: string) => void process.stdout.write(`${line}\n`) : null;
  for (const options of job.runs) {
    const result = await run(options, keys, print);
    report({ kind: 'result', result });
    if (job.stopAtFirst && result.violations.length > 0) break;
  }
} else {
  const fails = async (options: RunOptions) => {
    const { violations } = await run(options, keys, null);
    return violations[0]?.invariant === job.invariant;
  };
  report({ kind: 'shrunk', options: await shrink(job.options, fails) });
}
