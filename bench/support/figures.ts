export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const high = sorted[middle];
  if (high === undefined) throw new RangeError('no measurements');
  return sorted.length % 2 === 1 ? high : (high + (sorted[middle - 1] as number)) / 2;
}

/** The smallest value that is not exceeded by `percent` of the values. */
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

/** One measurement of one side: operations per second. */
export type Measure = () => Promise<number>;

export interface Floor {
  name: string;
  measure: Measure;
  /** Minimum ratio; null if the ratio is only printed. */
  atLeast: number | null;
}

export interface Comparison {
  name: string;
  unit: string;
  ours: Measure;
  floors: readonly Floor[];
  /** Warm-up rounds before the tries; their figures are printed but not counted. None in a short run. */
  warmUps?: number;
  /** Called before the first try, to discard other data of the warm-ups. */
  afterWarmUp?(): void;
}

/**
 * Measures the service and each floor alternately, each try starting with another side, and prints the figures and the
 * median of the ratios. A missed ratio sets the exit code, except in a short run. V8 optimises the service's code for
 * some 20,000 requests before its cost is stable, a floor's for a few hundred: `warmUps` lets both become stable.
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
  /** Null or absent: the figure is only printed. */
  atLeast?: number | null;
  atMost?: number | null;
  unit?: string;
  short: boolean;
}

/** Prints that a figure was not measured. In a full run this sets the exit code, because its limit was not checked. */
export function reportNotMeasured(
  name: string,
  reason: string,
  { atLeast, short }: { atLeast: number; short: boolean },
): void {
  console.log(`${name}: not measured (${reason}); at least ${atLeast}${short ? ': short run, no verdict' : ''}`);
  if (!short) process.exitCode = 1;
}

/** Prints a figure with its limit. A missed limit sets the exit code, except in a short run. */
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
  const limit = atLeast === null ? `at most ${shown(atMost as number)}` : `at least ${shown(atLeast)}`;
  console.log(
    `${name}: ${shown(figure)}; ${limit}: ${short ? 'short run, no verdict' : reached ? 'reached' : 'MISSED'}`,
  );
  if (!short && !reached) process.exitCode = 1;
}
