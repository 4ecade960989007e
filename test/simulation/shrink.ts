import type { RunOptions } from './options.ts';

const SHORTEST_STORM_MS = 1_000;
const MOST_FAULTS = 64;

/** Whether a run with these options violates the same invariant. */
export type StillFails = (options: RunOptions) => Promise<boolean>;

/** Removes what a failing run does not need: faults, a process, time, parts of the workload, single faults. */
export async function shrink(options: RunOptions, stillFails: StillFails): Promise<RunOptions> {
  let smallest = options;
  const attempt = async (smaller: Partial<RunOptions>): Promise<boolean> => {
    const candidate = { ...smallest, ...smaller };
    if (!(await stillFails(candidate))) return false;
    smallest = candidate;
    return true;
  };
  await removeChunks(options.faults, (faults) => attempt({ faults }));
  if (smallest.hosts !== 1) await attempt({ hosts: 1 });
  while (smallest.stormMs > SHORTEST_STORM_MS) {
    if (!(await attempt({ stormMs: Math.max(SHORTEST_STORM_MS, Math.floor(smallest.stormMs / 2)) }))) break;
  }
  await removeChunks(options.parts, (parts) => attempt({ parts }));
  let low = 0;
  for (let high = smallest.faults.length === 0 ? 0 : MOST_FAULTS; low < high; ) {
    const middle = (low + high) >> 1;
    if (await attempt({ mostFaults: middle })) high = middle;
    else low = middle + 1;
  }
  return smallest;
}

/**
 * Delta debugging: tries to remove all, then halves, down to single elements; `fails` reports whether the rest still
 * fails.
 */
async function removeChunks<T>(all: readonly T[], fails: (rest: readonly T[]) => Promise<boolean>): Promise<void> {
  if (all.length === 0 || (await fails([]))) return;
  let kept = all;
  for (let size = Math.ceil(all.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < kept.length && kept.length > 1; ) {
      const rest = [...kept.slice(0, at), ...kept.slice(at + size)];
      if (rest.length > 0 && (await fails(rest))) kept = rest;
      else at += size;
    }
  }
}
