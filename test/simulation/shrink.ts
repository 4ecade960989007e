import type { RunOptions } from './options.ts';

const SHORTEST_STORM_MS = 1_000;

/** Whether a run with these options violates the same invariant. */
export type StillFails = (options: RunOptions) => Promise<boolean>;

/** Takes away what a failing run does not need: a process, kinds of faults, parts of the workload, time, single faults. */
export async function shrink(options: RunOptions, stillFails: StillFails): Promise<RunOptions> {
  let smallest = options;
  const attempt = async (smaller: Partial<RunOptions>): Promise<boolean> => {
    const candidate = { ...smallest, ...smaller };
    if (!(await stillFails(candidate))) return false;
    smallest = candidate;
    return true;
  };
  await attempt({ hosts: 1 });
  while (smallest.stormMs > SHORTEST_STORM_MS) {
    if (!(await attempt({ stormMs: Math.max(SHORTEST_STORM_MS, Math.floor(smallest.stormMs / 2)) }))) break;
  }
  for (const part of options.parts) await attempt({ parts: smallest.parts.filter((one) => one !== part) });
  for (const fault of options.faults) await attempt({ faults: smallest.faults.filter((one) => one !== fault) });
  let low = 0;
  for (let high = 64; low < high; ) {
    const middle = (low + high) >> 1;
    if (await attempt({ mostFaults: middle })) high = middle;
    else low = middle + 1;
  }
  return smallest;
}
