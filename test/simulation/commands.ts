import { faultNames } from './faults.ts';
import { DEFAULT_STORM_MS, type RunOptions, wholeRun } from './options.ts';
import { partNames } from './workload/parts.ts';

/** The command that repeats a run. Without `--no-shrink` it also shrinks a failing run. */
export function commandOf({ seed, stormMs, hosts, parts, faults, mostFaults }: RunOptions, defect?: string): string {
  const words = [`--seed ${seed}`];
  if (stormMs !== DEFAULT_STORM_MS) words.push(`--duration ${stormMs / 1_000}`);
  if (defect !== undefined) words.push(`--defect ${defect}`);
  if (hosts !== null) words.push(`--hosts ${hosts}`);
  if (parts.length < partNames.length) words.push(`--parts ${parts.join() || 'none'}`);
  if (faults.length < faultNames.length) words.push(`--faults ${faults.join() || 'none'}`);
  if (mostFaults < wholeRun(seed).mostFaults) words.push(`--most-faults ${mostFaults}`);
  return `npm run simulate -- ${words.join(' ')}`;
}

/** How to repeat a failing run, and how to shrink it for the same invariant. */
export function adviceOf(options: RunOptions, defect?: string): string[] {
  const command = commandOf(options, defect);
  return [`replay: ${command} --trace`, `shrink: ${command}`];
}

const MOST_SHRUNK = 5;

export interface Failed {
  options: RunOptions;
  invariant: string;
}

/** Shrinks the first five of `failed` one after another, and prints the command of each shrunk run. */
export async function shrinkEach(
  failed: readonly Failed[],
  shrunk: (failed: Failed) => Promise<RunOptions>,
  print: (line: string) => void,
  defect?: string,
): Promise<void> {
  for (const one of failed.slice(0, MOST_SHRUNK)) {
    const smallest = await shrunk(one);
    print(`the smallest run from seed ${one.options.seed} that violates ${one.invariant}:`);
    print(`  ${commandOf(smallest, defect)} --trace`);
  }
  const rest = failed.slice(MOST_SHRUNK);
  if (rest.length > 0) print(`not shrunk, only ${MOST_SHRUNK} are:`);
  for (const { options } of rest) print(`  ${commandOf(options, defect)}`);
}
