import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { nodeFlags } from '../support/node-flags.ts';
import type { RunOptions } from './options.ts';
import type { RunResult } from './run.ts';
import type { Job, Report } from './worker.ts';

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));
const DEFECTS = new URL('./defects/register.ts', import.meta.url).href;
const COLLECTIONS = new URL('./collections/register.ts', import.meta.url).href;

export interface Given {
  /** A defect to apply to the sources as they are loaded. */
  defect?: string;
  trace?: boolean;
  stopAtFirst?: boolean;
  /** Lines of the trace. */
  line?(text: string): void;
}

/**
 * Runs all option sets in child processes, since each run replaces the clock of its process. Calls `each` with the
 * results in the order of completion.
 */
export async function runAll(
  runs: readonly RunOptions[],
  workers: number,
  each: (result: RunResult) => void,
  given: Given = {},
): Promise<void> {
  const shares = Array.from({ length: workers }, (_, n) => runs.filter((_, at) => at % workers === n));
  const { trace = false, stopAtFirst = false } = given;
  await Promise.all(
    shares
      .filter((share) => share.length > 0)
      .map((share) =>
        work({ kind: 'run', runs: share, trace, stopAtFirst }, given, (report) => {
          if (report.kind === 'result') each(report.result);
        }),
      ),
  );
}

/** The smallest options that violate the same invariant. */
export async function shrunk(options: RunOptions, invariant: string, given: Given = {}): Promise<RunOptions> {
  let smallest = options;
  await work({ kind: 'shrink', options, invariant }, given, (report) => {
    if (report.kind === 'shrunk') smallest = report.options;
  });
  return smallest;
}

function work(job: Job, { defect, line }: Given, each: (report: Report) => void): Promise<void> {
  // The hook registered last gets the source as changed by the earlier ones.
  const hooks = [...(defect === undefined ? [] : ['--import', DEFECTS]), '--import', COLLECTIONS];
  const child = spawn(process.execPath, [...nodeFlags, ...hooks, WORKER], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, SIMULATION_DEFECT: defect ?? '' },
  });
  child.stdin.on('error', () => {}); // a worker that ends early is reported by its exit code
  child.stdin.end(JSON.stringify(job));
  createInterface({ input: child.stdout }).on('line', (text) => {
    if (text.startsWith('{"kind":')) each(JSON.parse(text) as Report);
    else line?.(text);
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`a simulation worker ended with ${code}`));
    });
  });
}
