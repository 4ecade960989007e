import { DAY_MS, dayOf } from '../../domain/day.ts';
import { type Bucket, stateOf } from '../../domain/history/bucket.ts';
import { rollupSteps } from '../../domain/history/rollup.ts';
import type { Sample, SampleValue } from '../../domain/history/sample.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { Services } from '../operation.ts';
import { readOneSeries, type SeriesDays, type SeriesRef } from './series-days.ts';

// The last change of a property: the first sample of those at the end of its series that have the same value.

export interface LastChangeRequest extends SeriesRef {
  at: EpochMs;
  /** Samples and roll-ups are retained from these times on. */
  samplesFrom: EpochMs;
  rollupsFrom: EpochMs;
}

export interface LastChange {
  value: SampleValue;
  /** The value before; null if none is retained, or it is not known. */
  before: SampleValue | null;
  /** The sample that changed it; null if it has expired. */
  sample: Sample | null;
  /** The interval in which it changed: the time of the sample, or the minute of a roll-up. */
  from: EpochMs;
  /** Exclusive, unless it equals `from`. */
  to: EpochMs;
}

/** A sample, or a minute of samples that have expired. */
interface Entry {
  from: EpochMs;
  to: EpochMs;
  sample: Sample | null;
  last: SampleValue;
  /** All samples of the minute have the value `last`. */
  isUniform: boolean;
}

/** The last change at or before `at`; null without a sample until then. Days whose samples are all equal are skipped by their roll-ups. */
export async function readLastChange(
  services: Pick<Services, 'store'>,
  request: LastChangeRequest,
): Promise<Outcome<LastChange | null>> {
  let change: LastChange | null = null;
  /** The earliest day that has only samples with the value; its entries are not read yet. */
  let earliest: Day | null = null;
  for await (const read of daysBackwards(services, request)) {
    if (!read.ok) return read;
    const day = read.value;
    const bucket: Bucket | null = change === null ? null : await day.bucket();
    if (change !== null && bucket !== null) {
      if (isUniform(bucket, change.value)) {
        earliest = day;
        continue;
      }
      if (bucket.last !== change.value) return endAt(earliest, change, bucket.last);
    }
    const entries = await day.entries();
    if (!entries.ok) return entries;
    const value: SampleValue | undefined = change?.value ?? entries.value.at(-1)?.last;
    if (value === undefined) continue;
    const run = lastRun(entries.value, value);
    change = run.change ?? change;
    earliest = null;
    if (run.isComplete) return done(change);
  }
  return change === null ? done(null) : endAt(earliest, change, null);
}

/** The change at the first sample of `earliest`, or `change` without one. */
async function endAt(
  earliest: Day | null,
  change: LastChange,
  before: SampleValue | null,
): Promise<Outcome<LastChange>> {
  if (earliest === null) return done({ ...change, before });
  const entries = await earliest.entries();
  if (!entries.ok) return entries;
  const [first] = entries.value;
  return done(first === undefined ? { ...change, before } : changeAt(first, before));
}

const changeAt = ({ last, sample, from, to }: Entry, before: SampleValue | null): LastChange => ({
  ...{ value: last, before, sample, from, to },
});

/** The entries at the end with the value. It is complete if another value is before it. */
function lastRun(entries: readonly Entry[], value: SampleValue): { change: LastChange | null; isComplete: boolean } {
  let change: LastChange | null = null;
  for (const entry of entries.toReversed()) {
    if (entry.last !== value) return { change: change && { ...change, before: entry.last }, isComplete: true };
    change = changeAt(entry, null);
    if (!entry.isUniform) return { change, isComplete: true };
  }
  return { change, isComplete: false };
}

function isUniform({ count, numbers, states }: Bucket, value: SampleValue): boolean {
  if (typeof value === 'number') return numbers?.count === count && numbers.min === value && numbers.max === value;
  return numbers === null && states.length === 1 && states[0]?.[0] === stateOf(value);
}

/** A day with samples. */
interface Day {
  /** Null for the day of `at`, because its later samples do not count. */
  bucket(): Promise<Bucket | null>;
  /** At or before `at`, in their order. */
  entries(): Promise<Outcome<Entry[]>>;
}

/** Days that are read at a time; more for values that have not changed for long. */
const WINDOWS = [1, 7, 30, 120];

/** The retained days with samples up to that of `at`, the last one first. */
async function* daysBackwards(
  services: Pick<Services, 'store'>,
  request: LastChangeRequest,
): AsyncGenerator<Outcome<Day>> {
  const earliest = dayOf(request.rollupsFrom);
  let last = dayOf(request.at);
  for (let n = 0; last >= earliest; n += 1) {
    const from = Math.max(earliest, last - (WINDOWS[n] ?? 360) + 1);
    const read = await readOneSeries(services, request, { from, to: last }, '1d');
    if (!read.ok) return yield read;
    const { days } = read.value;
    for (const day of days.toReversed()) if (day >= from) yield done(dayAt(services, request, read.value, day));
    // The series names the last day with samples before the range too.
    const [before] = days;
    if (before === undefined || before >= from) return;
    last = before;
  }
}

function dayAt(services: Pick<Services, 'store'>, request: LastChangeRequest, series: SeriesDays, day: number): Day {
  const { at, samplesFrom } = request;
  return {
    bucket: async () =>
      day === dayOf(at) ? null : ((await series.bucketsOf(day, DAY_MS, (day + 1) * DAY_MS))[0] ?? null),
    async entries() {
      if (day * DAY_MS >= samplesFrom) {
        const samples = (await series.samplesOf(day)).filter(({ time }) => time <= at);
        return done(samples.map(entryOfSample));
      }
      const minutes = await readOneSeries(services, request, { from: day, to: day }, '1m');
      if (!minutes.ok) return minutes;
      const buckets = await minutes.value.bucketsOf(day, rollupSteps['1m'], (day + 1) * DAY_MS);
      return done(buckets.filter(({ start }) => start <= at).flatMap(entryOfMinute));
    },
  };
}

const entryOfSample = (sample: Sample): Entry => ({
  ...{ from: sample.time, to: sample.time, sample, last: sample.value, isUniform: true },
});

function entryOfMinute(bucket: Bucket): Entry[] {
  const { start: from, last } = bucket;
  if (last === null) return [];
  return [{ from, to: from + rollupSteps['1m'], sample: null, last, isUniform: isUniform(bucket, last) }];
}
