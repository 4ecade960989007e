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
export const formatLatencies = (values: readonly number[]): string =>
  values.length === 0
    ? 'nothing arrived'
    : [
        `n=${values.length}`,
        ...[50, 90, 99, 100].map((p) => `${p === 100 ? 'max' : `p${p}`} ${percentile(values, p).toFixed(1)} ms`),
      ].join('  ');

export const formatThousands = (value: number): string => Math.round(value).toLocaleString('en-US');

/** One side of a ratio, measured once: what was done a second. */
export type Measure = () => Promise<number>;

export interface Floor {
  name: string;
  measure: Measure;
  /** The least ratio; null where the ratio is only shown. */
  atLeast: number | null;
}

export interface Comparison {
  name: string;
  unit: string;
  ours: Measure;
  floors: readonly Floor[];
  /** Rounds before the tries; their figures are printed and not counted. None in a short run. */
  warmUps?: number;
  /** Told before the first try, to forget what else the warm-ups measured. */
  afterWarmUp?(): void;
}

/**
 * Measures ours and each floor in turn, each try beginning with another side, and prints the figures and the median of
 * the ratios. A ratio that is missed sets the exit code, unless the run is a short one. A service compiles its code for some
 * 20,000 requests before its cost stays the same, a floor for a few hundred: `warmUps` lets both come to that.
 */
export async function compare(
  { name, unit, ours, floors, warmUps = 0, afterWarmUp }: Comparison,
  { tries, short }: { tries: number; short: boolean },
): Promise<void> {
  const side = (measure: Measure) => ({ measure, figures: [] as number[] });
  const own = side(ours);
  const others = floors.map((floor) => ({ ...floor, ...side(floor.measure) }));
  let order = [own, ...others];
  const ratios = (figures: readonly number[]) => own.figures.map((figure, at) => figure / (figures[at] as number));
  const last = (values: readonly number[]) => values.at(-1) as number;
  for (let n = short ? 1 : 1 - warmUps; n <= tries; n += 1) {
    if (n === 1) {
      for (const { figures } of order) figures.length = 0;
      afterWarmUp?.();
    }
    order = [...order.slice(1), ...order.slice(0, 1)];
    for (const { measure, figures } of order) figures.push(await measure());
    const shown = others.map(
      (floor) => `${floor.name} ${formatThousands(last(floor.figures))}: ${last(ratios(floor.figures)).toFixed(3)}`,
    );
    const round = n < 1 ? 'warm-up' : `try ${n}`;
    console.log(`  ${round}: ${formatThousands(last(own.figures))} ${unit}; ${shown.join('; ')}`);
  }
  console.log(`${name}: ${formatThousands(median(own.figures))} ${unit}`);
  for (const { name: floor, figures, atLeast } of others)
    checkLimit(`  part of ${floor} (${formatThousands(median(figures))})`, median(ratios(figures)), { atLeast, short });
}

export interface Limit {
  /** Null or absent: the figure is only shown. */
  atLeast?: number | null;
  atMost?: number | null;
  unit?: string;
  short: boolean;
}

/** Prints that a figure is missing. In a full run that sets the exit code: its limit was not judged. */
export function reportNotMeasured(
  name: string,
  reason: string,
  { atLeast, short }: { atLeast: number; short: boolean },
): void {
  console.log(`${name}: not measured (${reason}); at least ${atLeast}${short ? ': short run, no verdict' : ''}`);
  if (!short) process.exitCode = 1;
}

/** Prints a figure with its limit. A limit that is missed sets the exit code, unless the run is a short one. */
export function checkLimit(
  name: string,
  figure: number,
  { atLeast = null, atMost = null, unit = '', short }: Limit,
): void {
  const shown = (value: number) => `${Number(value.toPrecision(4)).toLocaleString('en-US')}${unit && ` ${unit}`}`;
  if (atLeast === null && atMost === null) {
    console.log(`${name}: ${shown(figure)}`);
    return;
  }
  const reached = (atLeast === null || figure >= atLeast) && (atMost === null || figure <= atMost);
  const asked = atLeast === null ? `at most ${shown(atMost as number)}` : `at least ${shown(atLeast)}`;
  console.log(
    `${name}: ${shown(figure)}; ${asked}: ${short ? 'short run, no verdict' : reached ? 'reached' : 'MISSED'}`,
  );
  if (!short && !reached) process.exitCode = 1;
}
