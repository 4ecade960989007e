import { parseArgs } from 'node:util';
import { adviceOf, shrinkEach } from './commands.ts';
import { detectDefects } from './defects/detect-defects.ts';
import { type FaultName, faultNames } from './faults.ts';
import { DEFAULT_STORM_MS, type RunOptions, wholeRun } from './options.ts';
import type { RunResult } from './run.ts';
import { runAll, shrunk } from './workers.ts';
import { type PartName, partNames } from './workload/parts.ts';

/*
 * npm run simulate -- --seeds N [--seed FIRST] [--duration SECONDS] [--workers N]
 *                  -- --seed S [--trace] [what the shrinker printed]
 *                  -- --defects
 */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    seed: { type: 'string' },
    duration: { type: 'string' },
    workers: { type: 'string', default: '2' },
    hosts: { type: 'string' },
    parts: { type: 'string' },
    faults: { type: 'string' },
    'most-faults': { type: 'string' },
    defect: { type: 'string' },
    defects: { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
    'no-shrink': { type: 'boolean', default: false },
  },
});

const listed = <T extends string>(text: string | undefined, all: readonly T[]): readonly T[] =>
  text === undefined ? all : all.filter((name) => text.split(',').includes(name));

function optionsOf(seed: number): RunOptions {
  return {
    ...wholeRun(seed),
    stormMs: values.duration === undefined ? DEFAULT_STORM_MS : Number(values.duration) * 1_000,
    hosts: values.hosts === undefined ? null : values.hosts === '1' ? 1 : 2,
    parts: listed<PartName>(values.parts, partNames),
    faults: listed<FaultName>(values.faults, faultNames),
    mostFaults: Number(values['most-faults'] ?? wholeRun(seed).mostFaults),
  };
}

async function simulate(): Promise<boolean> {
  const first = Number(values.seed ?? 1);
  const count = Number(values.seeds ?? (values.seed === undefined ? 200 : 1));
  const runs = Array.from({ length: count }, (_, n) => optionsOf(first + n));
  const given = {
    trace: values.trace,
    line: (text: string) => void process.stdout.write(`${text}\n`),
    ...(values.defect !== undefined && { defect: values.defect }),
  };
  const results: RunResult[] = [];
  const began = performance.now();
  await runAll(
    runs,
    Number(values.workers),
    (result) => {
      results.push(result);
      if (count === 1 || result.violations.length > 0) printResult(result);
    },
    given,
  );
  const failed = results.filter(({ violations }) => violations.length > 0).sort((a, b) => a.seed - b.seed);
  printSummary(results, failed.length, performance.now() - began);
  if (!values['no-shrink'] && !values.trace) {
    const runs = failed.map(({ seed, violations: [first] }) => ({
      options: optionsOf(seed),
      invariant: first?.invariant ?? '',
    }));
    await shrinkEach(runs, ({ options, invariant }) => shrunk(options, invariant, given), given.line, values.defect);
  }
  return failed.length === 0;
}

function printResult({ seed, violations, steps, virtualMs, realMs, hash, tail, counts }: RunResult): void {
  const state = violations.length === 0 ? 'ok' : 'VIOLATION';
  const hours = (virtualMs / 3_600_000).toFixed(1);
  process.stdout.write(
    `seed ${seed}: ${state}, ${steps} steps, ${hours} h in ${Math.round(realMs)} ms, trace ${hash}\n`,
  );
  if (violations.length === 0) {
    process.stdout.write(`${JSON.stringify(counts, null, 1)}\n`);
    return;
  }
  for (const { invariant, detail } of violations.slice(0, 5)) process.stdout.write(`  ${invariant}: ${detail}\n`);
  process.stdout.write(
    `  the end of the trace:\n${tail
      .slice(-15)
      .map((line) => `    ${line}\n`)
      .join('')}`,
  );
  for (const line of adviceOf(optionsOf(seed), values.defect)) process.stdout.write(`  ${line}\n`);
}

function printSummary(results: readonly RunResult[], failed: number, tookMs: number): void {
  const steps = results.reduce((sum, one) => sum + one.steps, 0);
  const hours = results.reduce((sum, one) => sum + one.virtualMs, 0) / 3_600_000;
  process.stdout.write(
    `${results.length} seeds, ${steps} steps, ${Math.round(hours)} h of virtual time in ${Math.round(tookMs / 1_000)} s, ` +
      `${failed} with violations\n`,
  );
}

const good = values.defects ? await detectDefects(Number(values.workers)) : await simulate();
process.exit(good ? 0 : 1);
