import { setImmediate as nextTurn } from 'node:timers/promises';
import { Overloaded } from '../../actors/contract.ts';
import { DAY_MS, dayOf } from '../../domain/day.ts';
import { type Bucket, BucketMerger } from '../../domain/history/bucket.ts';
import { type RollupStep, rollupSteps } from '../../domain/history/rollup.ts';
import type { Sample, SampleValue } from '../../domain/history/sample.ts';
import { rollupFor } from '../../domain/history/step.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import type { SeriesRange } from '../../store/contract/history.ts';
import type { Services } from '../operation.ts';
import { type RequestedSeries, readSeriesDays, type SeriesDays } from './series-days.ts';

/** Days of one series that one statement reads at most: all their compressed samples are in memory. */
const MAX_READ_DAYS = 7;
/** Days of samples of all series of a statement, with several series. */
const MAX_STATEMENT_DAYS = 128;
/** Stored roll-ups of all series of a statement, with several series. */
const MAX_STATEMENT_ROLLUPS = 200_000;

interface RequestedRange {
  tenantId: Uuid;
  from: EpochMs;
  /** Exclusive. */
  to: EpochMs;
}

/** Samples of a range. */
interface RequestedSamples extends RequestedRange {
  /** The value before the range is not needed. It may be in any partition, and a server plans each one for a new session. */
  withoutBefore?: boolean;
}

export interface SeriesRequest extends RequestedSeries, RequestedRange {}

/** Several series of the same range. */
export interface ManySeriesRequest extends RequestedRange {
  keys: readonly RequestedSeries[];
}

export interface SampleSeries {
  /** In their order. */
  samples: Sample[];
  /** Of the last sample before the range; null without one, and undetermined if it was not requested. */
  before: SampleValue | null;
}

/**
 * The samples of the range that are retained; if there are more than `limit`, so many and all with the time of the next one.
 */
export async function readSamples(
  services: Pick<Services, 'store'>,
  { tenantId, from, to, withoutBefore = false, ...key }: SeriesRequest & RequestedSamples,
  limit: number,
): Promise<Outcome<SampleSeries>> {
  const read = await readManySamples(services, { tenantId, from, to, withoutBefore, keys: [key] }, limit);
  return read.ok ? done(read.value[0] as SampleSeries) : read;
}

/** The same for several series, in the order of their keys. */
export async function readManySamples(
  services: Pick<Services, 'store'>,
  request: ManySeriesRequest & RequestedSamples,
  limit: number,
): Promise<Outcome<SampleSeries[]>> {
  const all = request.keys.map((key) => ({ key, samples: [] as Sample[], before: null as SampleValue | null }));
  let open = all;
  for (const days of dayWindows(request)) {
    const each = Math.max(1, Math.floor(MAX_STATEMENT_DAYS / (days.to - days.from + 1)));
    for (let n = 0; n < open.length; n += each) {
      const chunk = open.slice(n, n + each);
      const keys = chunk.map(({ key }) => key);
      const targets = chunk.values();
      for await (const read of readSeriesDays(services, { ...request, keys }, days, null)) {
        if (!read.ok) return read;
        await addSamples(targets.next().value as SampleSeries, read.value, request, limit);
      }
    }
    open = open.filter(({ samples }) => samples.length <= limit);
    if (open.length === 0) break;
  }
  return done(all.map(({ samples, before }) => ({ samples, before })));
}

/** Adds the samples of days until there are more than `limit`: a day may have many more, of each series. */
async function addSamples(
  target: SampleSeries,
  series: SeriesDays,
  range: Pick<SeriesRequest, 'from' | 'to'>,
  limit: number,
): Promise<void> {
  for await (const { samples, before } of samplesByDay(series, range)) {
    if (before !== undefined) target.before = before;
    for (const sample of samples) {
      if (sample.time < range.from) {
        target.before = sample.value;
        continue;
      }
      const next = target.samples[limit];
      if (next !== undefined && sample.time > next.time) return;
      target.samples.push(sample);
    }
    if (target.samples.length > limit) return;
    await nextTurn();
  }
}

/** The samples by day. Throws `Overloaded` if the device has more than can be read at once. */
export async function* readSampleDays(
  services: Pick<Services, 'store'>,
  { tenantId, from, to, withoutBefore = false, ...key }: SeriesRequest & RequestedSamples,
): AsyncGenerator<DaySamples> {
  for (const days of dayWindows({ from, to, withoutBefore })) {
    for await (const read of readSeriesDays(services, { tenantId, keys: [key] }, days, null)) {
      if (!read.ok) throw new Overloaded(read.refusal.detail);
      yield* samplesByDay(read.value, { from, to });
    }
  }
}

/** The days of a range in groups for one statement each: the first one alone, as it may have all samples of an answer. */
function* dayWindows({ from, to, withoutBefore = false }: Omit<RequestedSamples, 'tenantId'>): Generator<SeriesRange> {
  const first = dayOf(from);
  const last = dayOf(to - 1);
  for (let day = first, count = 1; day <= last; day += count, count = MAX_READ_DAYS) {
    const isWithoutEarlier = withoutBefore || day > first;
    yield { from: day, to: Math.min(day + count - 1, last), ...(isWithoutEarlier && { withoutEarlier: true }) };
  }
}

interface DaySamples {
  /** Those before the end of the range, in their order. On its first day some may be before its start. */
  samples: Iterable<Sample>;
  /** The value of a day before the range. */
  before?: SampleValue;
}

async function* samplesByDay(
  series: SeriesDays,
  { from, to }: Pick<SeriesRequest, 'from' | 'to'>,
): AsyncGenerator<DaySamples> {
  for (const day of series.days) {
    if (day < dayOf(from)) {
      const before = (await series.bucketsOf(day, DAY_MS, to)).at(-1)?.last ?? null;
      if (before !== null) yield { samples: [], before };
    }
    if (day < series.first) continue;
    const samples = await series.eachSampleOf(day);
    yield { samples: to < (day + 1) * DAY_MS ? samplesBefore(to, samples) : samples };
  }
}

function* samplesBefore(to: EpochMs, samples: Iterable<Sample>): Generator<Sample> {
  for (const sample of samples) {
    if (sample.time >= to) return;
    yield sample;
  }
}

/** Source of a range: `samples`, or the roll-ups of a step. */
export type SeriesSource = 'samples' | RollupStep;

export interface BucketSeries {
  buckets: Bucket[];
  /** Of the last sample before the range; null without one. */
  before: SampleValue | null;
}

/** Intervals of `step` of the range; `from` is a multiple of it. States last until `until`, which is at most `to`. */
export async function readBuckets(
  services: Pick<Services, 'store'>,
  { tenantId, from, to, ...key }: SeriesRequest,
  step: Milliseconds,
  until: EpochMs,
): Promise<Outcome<BucketSeries & { source: SeriesSource }>> {
  const read = await readManyBuckets(services, { tenantId, from, to, keys: [key] }, step, until);
  if (!read.ok) return read;
  return done({ source: read.value.source, ...(read.value.series[0] as BucketSeries) });
}

/** The same for several series, in the order of their keys. */
export async function readManyBuckets(
  services: Pick<Services, 'store'>,
  request: ManySeriesRequest,
  step: Milliseconds,
  until: EpochMs,
): Promise<Outcome<{ source: SeriesSource; series: BucketSeries[] }>> {
  const { from, to, keys } = request;
  const source = rollupFor(step);
  const length = source === null ? step : rollupSteps[source];
  const days = { from: dayOf(from), to: dayOf(to - 1) };
  const dayCount = days.to - days.from + 1;
  const each = source === null ? MAX_STATEMENT_DAYS / dayCount : (MAX_STATEMENT_ROLLUPS * length) / (dayCount * DAY_MS);
  const size = Math.max(1, Math.floor(each));
  const series: BucketSeries[] = [];
  for (let n = 0; n < keys.length; n += size) {
    for await (const read of readSeriesDays(services, { ...request, keys: keys.slice(n, n + size) }, days, source)) {
      if (!read.ok) return read;
      series.push(await mergedBuckets(read.value, { from, to, step, length, until }));
    }
  }
  return done({ source: source ?? 'samples', series });
}

/** The intervals of `step` of a series; `length`: of those that its days have. */
async function mergedBuckets(
  series: SeriesDays,
  { from, to, step, length, until }: Record<'from' | 'to' | 'step' | 'length' | 'until', number>,
): Promise<BucketSeries> {
  const merger = new BucketMerger(step, from);
  for (const day of series.days) {
    // An interval may continue on the next day, whose samples end the last state of this one.
    const end = Math.min(until, (day + 1) * DAY_MS);
    await series.visitBuckets(day, length, end, (bucket) => {
      if (bucket.start < to) merger.add(bucket, Math.min(bucket.start + length, end));
    });
    await nextTurn();
  }
  return { buckets: merger.finish(until), before: merger.before };
}
