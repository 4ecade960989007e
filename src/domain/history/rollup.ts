import type { EpochMs, Milliseconds } from '../values.ts';
import { type Bucket, NO_STATES, type NumberSummary, type StateTime } from './bucket.ts';
import {
  ColumnReader,
  compress,
  decompress,
  expectSameLength,
  packNumbers,
  packTimes,
  packValues,
  TimeReader,
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
  s?: (readonly StateTime[])[];
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
  return compress(JSON.stringify(columns));
}

const isSingleNumber = ({ count, numbers }: Pick<Bucket, 'count' | 'numbers'>): boolean =>
  count === 1 && numbers !== null;

/**
 * Calls `visit` with each bucket of a day, in their order. It is the same object each time, so that thousands of buckets are
 * merged without an object for each.
 */
export function forEachBucket(
  bytes: Uint8Array,
  day: EpochMs,
  step: Milliseconds,
  visit: (bucket: Readonly<Bucket>) => void,
): void {
  const columns = decompress<RollupColumns>(bytes);
  const { c: counts, h: heads, n: numberCounts = counts, s: states } = columns;
  expectSameLength(columns.i, counts, numberCounts);
  const indexes = new TimeReader(columns.i);
  const lows = new ColumnReader<number>(columns.lo);
  const highs = new ColumnReader<number>(columns.hi);
  const sums = new ColumnReader<number>(columns.su);
  const lasts = new ColumnReader<SampleValue>(columns.la);
  const numbers: NumberSummary = { count: 0, min: 0, max: 0, sum: 0 };
  const bucket: Bucket = { start: 0, count: 0, numbers, last: null, head: 0, states: NO_STATES };
  for (let n = 0; n < counts.length; n += 1) {
    numbers.count = numberCounts[n] as number;
    if (numbers.count > 0) {
      numbers.min = lows.next();
      numbers.max = numbers.count === 1 ? numbers.min : highs.next();
      numbers.sum = numbers.count === 1 ? numbers.min : sums.next();
    }
    bucket.start = day + indexes.next() * step;
    bucket.count = counts[n] as number;
    bucket.numbers = numbers.count > 0 ? numbers : null;
    bucket.head = heads[n] ?? 0;
    bucket.states = states?.[n] ?? NO_STATES;
    bucket.last = isSingleNumber(bucket) ? numbers.min : lasts.next();
    visit(bucket);
  }
}

export function decodeRollup(bytes: Uint8Array, day: EpochMs, step: Milliseconds): Bucket[] {
  const buckets: Bucket[] = [];
  forEachBucket(bytes, day, step, (bucket) => {
    buckets.push({ ...bucket, numbers: bucket.numbers && { ...bucket.numbers } });
  });
  return buckets;
}
