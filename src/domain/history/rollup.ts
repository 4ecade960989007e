import type { EpochMs, Milliseconds } from '../values.ts';
import type { Bucket, StateTime } from './bucket.ts';
import {
  compress,
  decompress,
  packNumbers,
  packTimes,
  packValues,
  unpackNumbers,
  unpackTimes,
  unpackValues,
} from './columns.ts';
import type { SampleValue } from './sample.ts';

/** The steps whose roll-ups are stored. */
export const rollupSteps = {
  '1m': 60_000,
  '15m': 900_000,
  '1h': 3_600_000,
  '1d': 86_400_000,
} as const satisfies Readonly<Record<string, Milliseconds>>;
export type RollupStep = keyof typeof rollupSteps;

/** Columns of the buckets of a day, without values that follow from the count of a bucket. */
interface RollupColumns {
  /** Number of each bucket within the day. */
  i: number[];
  c: number[];
  /** Heads: of the first bucket alone, if the day has only numbers. */
  h: number[];
  /** Number of numbers, unless all samples are numbers. */
  n?: number[];
  lo: ReturnType<typeof packNumbers>;
  /** Of buckets with more than one number. */
  hi: ReturnType<typeof packNumbers>;
  su: ReturnType<typeof packNumbers>;
  /** Of buckets other than those with a single number. */
  la: ReturnType<typeof packValues>;
  /** Of all buckets, unless all samples are numbers. */
  s?: StateTime[][];
}

/** The buckets of one day, in their order. */
export function encodeRollup(day: EpochMs, step: Milliseconds, buckets: readonly Bucket[]): Promise<Buffer> {
  const numbers = buckets.flatMap((bucket) => bucket.numbers ?? []);
  const several = numbers.filter(({ count }) => count > 1);
  const hasStates = buckets.some((bucket) => bucket.numbers?.count !== bucket.count);
  const columns: RollupColumns = {
    i: packTimes(buckets.map(({ start }) => (start - day) / step)),
    c: buckets.map(({ count }) => count),
    h: (hasStates ? buckets : buckets.slice(0, 1)).map(({ head }) => head),
    ...(hasStates && { n: buckets.map((bucket) => bucket.numbers?.count ?? 0) }),
    lo: packNumbers(numbers.map(({ min }) => min)),
    hi: packNumbers(several.map(({ max }) => max)),
    su: packNumbers(several.map(({ sum }) => sum)),
    la: packValues(buckets.filter((bucket) => !isSingleNumber(bucket)).map(({ last }) => last as SampleValue)),
    ...(hasStates && { s: buckets.map(({ states }) => states) }),
  };
  return compress(columns);
}

const isSingleNumber = ({ count, numbers }: Pick<Bucket, 'count' | 'numbers'>): boolean =>
  count === 1 && numbers !== null;

export function decodeRollup(bytes: Uint8Array, day: EpochMs, step: Milliseconds): Bucket[] {
  const columns = decompress<RollupColumns>(bytes);
  const { c: counts, h: heads, n: numberCounts = counts, s: states } = columns;
  const lows = unpackNumbers(columns.lo).values();
  const highs = unpackNumbers(columns.hi).values();
  const sums = unpackNumbers(columns.su).values();
  const lasts = unpackValues<SampleValue>(columns.la).values();
  return unpackTimes(columns.i).map((index, n) => {
    const count = counts[n] as number;
    const numberCount = numberCounts[n] as number;
    let numbers: Bucket['numbers'] = null;
    if (numberCount > 0) {
      const min = next(lows);
      numbers =
        numberCount === 1
          ? { count: 1, min, max: min, sum: min }
          : { count: numberCount, min, max: next(highs), sum: next(sums) };
    }
    const last = isSingleNumber({ count, numbers }) ? (numbers?.min ?? null) : next(lasts);
    return { start: day + index * step, count, numbers, last, head: heads[n] ?? 0, states: states?.[n] ?? [] };
  });
}

function next<T>(values: Iterator<T>): T {
  const { done, value } = values.next();
  if (done) throw new Error('a column of a roll-up is too short');
  return value;
}
