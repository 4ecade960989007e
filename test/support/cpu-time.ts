/** Counts the milliseconds of processor time that this thread uses from now on: other processes take nothing of it. */
function cpuTime(): () => number {
  const from = process.threadCpuUsage();
  return () => {
    const { user, system } = process.threadCpuUsage(from);
    return (user + system) / 1_000;
  };
}

/** Work of the kinds that rules are made of: strings, patterns, maps, JSON. About 10 ms. */
function yardstick(): number {
  let sum = 0;
  for (let n = 0; n < 4_000; n += 1) {
    const words = `turn off the light ${n} and lock the door`.toLowerCase().split(/[\s,]+/);
    const counts = new Map(words.map((word) => [word, word.length]));
    sum += JSON.stringify([...counts]).length + (JSON.parse(`{"n":[${n},${sum}]}`).n as number[]).length;
  }
  return sum;
}

function measure(work: () => unknown): number {
  const took = cpuTime();
  work();
  return took();
}

/**
 * Processor time of `work` as a multiple of that of a fixed piece of work, which is done before and after it. So a slow
 * processor does not count, and neither do other processes; a limit still leaves room for twenty times what is usual,
 * as compiling and collecting the garbage of other tests count too.
 */
export function relativeCost(work: () => unknown): number {
  const before = measure(yardstick);
  const cost = measure(work);
  const after = measure(yardstick);
  return cost / Math.max(before, after);
}
