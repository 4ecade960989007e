/** The middle of some measurements. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const high = sorted[middle];
  if (high === undefined) throw new RangeError('no measurements');
  return sorted.length % 2 === 1 ? high : (high + (sorted[middle - 1] as number)) / 2;
}

/** The smallest value that `percent` of all do not exceed. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = Float64Array.from(values).sort();
  const found = sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)];
  if (found === undefined) throw new RangeError('no measurements');
  return found;
}

/** `n=…  p50 …  p99 …  max …` in milliseconds. */
export const latencies = (values: readonly number[]): string =>
  values.length === 0
    ? 'nothing arrived'
    : [
        `n=${values.length}`,
        ...[50, 90, 99, 100].map((p) => `${p === 100 ? 'max' : `p${p}`} ${percentile(values, p).toFixed(1)} ms`),
      ].join('  ');

export const thousands = (value: number): string => Math.round(value).toLocaleString('en-US');

/** One side of a ratio, measured once: what was done a second. */
export type Measure = () => Promise<number>;

export interface Ratio {
  name: string;
  unit: string;
  ours: Measure;
  floor: Measure;
  floorName: string;
  /** Null where nothing is asked. */
  atLeast: number | null;
}

/**
 * Measures both sides in turn, the first one changing from try to try, and prints each pair and the median of the
 * ratios. A ratio that is missed sets the exit code, unless the run is a short one.
 */
export async function compare(ratio: Ratio, { tries, short }: { tries: number; short: boolean }): Promise<number> {
  const { name, unit, atLeast, floorName } = ratio;
  const ratios: number[] = [];
  const figures: { ours: number; floor: number }[] = [];
  for (let n = 1; n <= tries; n += 1) {
    const floorFirst = n % 2 === 1;
    const first = await (floorFirst ? ratio.floor : ratio.ours)();
    const second = await (floorFirst ? ratio.ours : ratio.floor)();
    const pair = floorFirst ? { ours: second, floor: first } : { ours: first, floor: second };
    figures.push(pair);
    ratios.push(pair.ours / pair.floor);
    console.log(
      `  try ${n}: ${thousands(pair.ours)} ${unit}, ${floorName} ${thousands(pair.floor)}: ${(pair.ours / pair.floor).toFixed(3)}`,
    );
  }
  const middle = median(ratios);
  const ours = thousands(median(figures.map((pair) => pair.ours)));
  const floor = thousands(median(figures.map((pair) => pair.floor)));
  const reached = atLeast === null || middle >= atLeast;
  const verdict = short ? 'short run, no verdict' : reached ? 'reached' : 'MISSED';
  const asked = atLeast === null ? '' : `; at least ${atLeast}: ${verdict}`;
  console.log(`${name}: ${ours} of ${floor} ${unit}, median ratio ${middle.toFixed(3)}${asked}`);
  if (!short && !reached) process.exitCode = 1;
  return middle;
}
