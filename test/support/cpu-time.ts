/** Measures this thread's processor time in milliseconds from now on, without other processes. */
function cpuTime(): () => number {
  const from = process.threadCpuUsage();
  return () => {
    const { user, system } = process.threadCpuUsage(from);
    return (user + system) / 1_000;
  };
}

/** A reference workload with the operations that rules use: strings, patterns, maps, JSON. About 10 ms. */
function referenceWork(): number {
  let sum = 0;
  for (let n = 0; n < 4_000; n += 1) {
    const words = `turn off the light ${n} and lock the door`.toLowerCase().split(/[\s,]+/);
    const counts = new Map(words.map((word) => [word, word.length]));
    sum += JSON.stringify([...counts]).length + (JSON.parse(`{"n":[${n},${sum}]}`).n as number[]).length;
  }
  return sum;
}

function measure(work: () => unknown): number {
  const elapsed = cpuTime();
  work();
  return elapsed();
}

/**
 * Processor time of `work` as a multiple of a reference workload, which is run before and after it. So the speed of the
 * processor does not matter, nor do other processes. A limit should still be twenty times the usual value, because
 * compiling and collecting the garbage of other tests count too.
 */
export function relativeCost(work: () => unknown): number {
  const before = measure(referenceWork);
  const cost = measure(work);
  const after = measure(referenceWork);
  return cost / Math.max(before, after);
}
