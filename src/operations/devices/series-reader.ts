import { setImmediate as nextTurn } from 'node:timers/promises';
import { Overloaded } from '../../actors/contract.ts';
import { DAY_MS, dayOf } from '../../domain/day.ts';
import { type Bucket, BucketMerger, rollUp } from '../../domain/history/bucket.ts';
import { decodeRollup, type RollupStep, rollupSteps } from '../../domain/history/rollup.ts';
import {
  bySampleOrder,
  type Sample,
  type SampleValue,
  type SeriesPath,
  type StoredReport,
  sampleValueAt,
  seriesPathOf,
} from '../../domain/history/sample.ts';
import { decodeSegment } from '../../domain/history/segment.ts';
import { rollupFor } from '../../domain/history/step.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import type { ReportRow, SeriesKey, SeriesRange, SeriesRows, StoredSegment } from '../../store/contract/history.ts';
import type { Services } from '../operation.ts';

/** Bytes of reports that are parsed before other work gets its turn. */
const BYTES_PER_TURN = 128 * 1024;
/** Days of one series that one statement reads at most: all their compressed samples are in memory. */
const MAX_READ_DAYS = 7;
/** Days of samples of all series of a statement, with several series. */
const MAX_STATEMENT_DAYS = 128;
/** Stored roll-ups of all series of a statement, with several series. */
const MAX_STATEMENT_ROLLUPS = 200_000;

/** A series, with reports of its device that wait in memory for its next commit. */
export interface RequestedSeries extends SeriesKey {
  pending?: readonly StoredReport[];
}

/** A series of a tenant. */
export interface SeriesRef extends RequestedSeries {
  tenantId: Uuid;
}

interface RequestedRange {
  tenantId: Uuid;
  from: EpochMs;
  /** Exclusive. */
  to: EpochMs;
}

export interface SeriesRequest extends RequestedSeries, RequestedRange {}

/** Several series of the same range. */
export interface ManySeriesRequest extends RequestedRange {
  keys: readonly RequestedSeries[];
}

export interface SampleSeries {
  /** In their order. */
  samples: Sample[];
  /** Of the last sample before the range; null without one. */
  before: SampleValue | null;
}

type Reading = Pick<Services, 'store'>;

/**
 * The samples of the range that are retained; if there are more than `limit`, so many and all with the time of the next one.
 */
export async function readSamples(
  services: Reading,
  { tenantId, from, to, ...key }: SeriesRequest,
  limit: number,
): Promise<Outcome<SampleSeries>> {
  const read = await readManySamples(services, { tenantId, from, to, keys: [key] }, limit);
  return read.ok ? done(read.value[0] as SampleSeries) : read;
}

/** The same for several series, in the order of their keys. */
export async function readManySamples(
  services: Reading,
  request: ManySeriesRequest,
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
      for await (const read of readSeries(services, { ...request, keys }, days, null)) {
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
  { from, to }: Pick<SeriesRequest, 'from' | 'to'>,
  limit: number,
): Promise<void> {
  for await (const { samples, before } of samplesByDay(series, from, to)) {
    if (before !== undefined) target.before = before;
    for (const sample of samples) {
      const next = target.samples[limit];
      if (next !== undefined && sample.time > next.time) return;
      target.samples.push(sample);
    }
    if (target.samples.length > limit) return;
    await nextTurn();
  }
}

/**
 * The samples of the range by day, each with the value before the range if the day has one. Throws `Overloaded` if the device
 * has more than can be read at once.
 */
export async function* readSampleDays(
  services: Reading,
  { tenantId, from, to, ...key }: SeriesRequest,
): AsyncGenerator<DaySamples> {
  for (const days of dayWindows({ from, to })) {
    for await (const read of readSeries(services, { tenantId, keys: [key] }, days, null)) {
      if (!read.ok) throw new Overloaded(read.refusal.detail);
      yield* samplesByDay(read.value, from, to);
    }
  }
}

/** The days of a range in groups for one statement each: more days at a time, as most devices report seldom. */
function* dayWindows({ from, to }: Pick<SeriesRequest, 'from' | 'to'>): Generator<SeriesRange> {
  const first = dayOf(from);
  const last = dayOf(to - 1);
  for (let day = first, count = 1; day <= last; day += count, count = Math.min(2 * count, MAX_READ_DAYS))
    yield { from: day, to: Math.min(day + count - 1, last), ...(day > first && { withoutEarlier: true }) };
}

interface DaySamples {
  samples: Sample[];
  /** Of the last sample before the range, if the day has one. */
  before?: SampleValue;
}

async function* samplesByDay(series: SeriesDays, from: EpochMs, to: EpochMs): AsyncGenerator<DaySamples> {
  for (const day of series.days) {
    if (day < dayOf(from)) {
      const before = (await series.bucketsOf(day, DAY_MS, to)).at(-1)?.last ?? null;
      if (before !== null) yield { samples: [], before };
    }
    if (day < series.first) continue;
    const all = await series.samplesOf(day);
    const start = all.findIndex(({ time }) => time >= from);
    const before = all[(start === -1 ? all.length : start) - 1]?.value;
    const end = all.findIndex(({ time }) => time >= to);
    const samples =
      start === -1 ? [] : start === 0 && end === -1 ? all : all.slice(start, end === -1 ? undefined : end);
    yield before === undefined ? { samples } : { samples, before };
  }
}

/** Source of a range: `samples`, or the roll-ups of a step. */
export type SeriesSource = 'samples' | RollupStep;

/** Intervals of `step` of the range; `from` is a multiple of it. States last until `until`, which is at most `to`. */
export async function readBuckets(
  services: Reading,
  { tenantId, from, to, ...key }: SeriesRequest,
  step: Milliseconds,
  until: EpochMs,
): Promise<Outcome<{ source: SeriesSource; buckets: Bucket[] }>> {
  const read = await readManyBuckets(services, { tenantId, from, to, keys: [key] }, step, until);
  if (!read.ok) return read;
  return done({ source: read.value.source, buckets: read.value.series[0] as Bucket[] });
}

/** The same for several series, in the order of their keys. */
export async function readManyBuckets(
  services: Reading,
  request: ManySeriesRequest,
  step: Milliseconds,
  until: EpochMs,
): Promise<Outcome<{ source: SeriesSource; series: Bucket[][] }>> {
  const { from, to, keys } = request;
  const source = rollupFor(step);
  const length = source === null ? step : rollupSteps[source];
  const days = { from: dayOf(from), to: dayOf(to - 1) };
  const dayCount = days.to - days.from + 1;
  const each = source === null ? MAX_STATEMENT_DAYS / dayCount : (MAX_STATEMENT_ROLLUPS * length) / (dayCount * DAY_MS);
  const size = Math.max(1, Math.floor(each));
  const series: Bucket[][] = [];
  for (let n = 0; n < keys.length; n += size) {
    for await (const read of readSeries(services, { ...request, keys: keys.slice(n, n + size) }, days, source)) {
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
): Promise<Bucket[]> {
  const merger = new BucketMerger(step, from);
  for (const day of series.days) {
    // An interval may continue on the next day, whose samples end the last state of this one.
    const end = Math.min(until, (day + 1) * DAY_MS);
    for (const bucket of await series.bucketsOf(day, length, end))
      if (bucket.start < to) merger.add(bucket, Math.min(bucket.start + length, end));
    await nextTurn();
  }
  return merger.finish(until);
}

const BEING_COMPACTED = refuse(
  'OVERLOADED',
  'The device has reported more than can be read at once. Retry in a minute.',
);

/** The series of one property. `source` null: samples. */
export async function readOneSeries(
  services: Reading,
  { tenantId, ...key }: SeriesRef,
  range: SeriesRange,
  source: RollupStep | null,
): Promise<Outcome<SeriesDays>> {
  for await (const read of readSeries(services, { tenantId, keys: [key] }, range, source)) return read;
  return BEING_COMPACTED;
}

/**
 * The series in the order of the keys; `source` null: samples. If they have more than one statement reads, half of them are
 * read after the other half, so that both are not in memory, until it is one series whose device has too much.
 */
async function* readSeries(
  services: Reading,
  { tenantId, keys }: Pick<ManySeriesRequest, 'tenantId' | 'keys'>,
  range: SeriesRange,
  source: RollupStep | null,
): AsyncGenerator<Outcome<SeriesDays>> {
  const { history } = services.store;
  const series = keys.map(({ deviceId, property }) => ({ deviceId, property }));
  const all = await history.series(tenantId, series, range, source);
  if (all.some(({ complete }) => !complete)) {
    if (keys.length <= 1) {
      yield BEING_COMPACTED;
      return;
    }
    const half = Math.ceil(keys.length / 2);
    yield* readSeries(services, { tenantId, keys: keys.slice(0, half) }, range, source);
    yield* readSeries(services, { tenantId, keys: keys.slice(half) }, range, source);
    return;
  }
  const paths = keys.map(({ property }) => seriesPathOf(property));
  const reported = await reportedOf(all, paths);
  for (const [n, rows] of all.entries()) {
    const { deviceId, property, pending = [] } = keys[n] as RequestedSeries;
    const waiting = pending.flatMap((report) => sampleOf(report, paths[n] ?? null) ?? []);
    const unmerged = unmergedOf({ rows, reported: reported[n] ?? [], pending: waiting }, range);
    const segments = (day: number) => history.segments(tenantId, deviceId, day, [property]);
    yield done(new SeriesDays({ rows, unmerged, range, source, segments }));
  }
}

/** The samples of a day that are not merged. */
interface UnmergedDay {
  parts: StoredSegment[];
  reported: Reported[];
  /** From reports that were not committed when the request began. */
  pending: Sample[];
}

/** A sample of a report that is not compacted. */
interface Reported {
  version: number;
  sample: Sample;
}

interface Unmerged {
  rows: SeriesRows;
  reported: readonly Reported[];
  pending: readonly Sample[];
}

/** By day, up to the last one of the range. */
function unmergedOf(
  { rows, reported, pending }: Unmerged,
  { from, to, withoutEarlier }: SeriesRange,
): Map<number, UnmergedDay> {
  const byDay = new Map<number, UnmergedDay>();
  const on = (day: number): UnmergedDay => {
    const known = byDay.get(day) ?? { parts: [], reported: [], pending: [] };
    byDay.set(day, known);
    return known;
  };
  for (const part of rows.parts) on(part.day).parts.push(part);
  for (const one of reported) {
    const day = dayOf(one.sample.time);
    if (day <= to) on(day).reported.push(one);
  }
  for (const sample of pending) {
    const day = dayOf(sample.time);
    if (day <= to && (day >= from || !withoutEarlier)) on(day).pending.push(sample);
  }
  return byDay;
}

interface SeriesParts {
  rows: SeriesRows;
  unmerged: ReadonlyMap<number, UnmergedDay>;
  range: SeriesRange;
  /** The roll-ups that `rows` has; null: samples. */
  source: RollupStep | null;
  segments(day: number): Promise<StoredSegment[]>;
}

/** The series of a property as of one moment, by day. Each day is decoded on its own, to limit the memory of a read. */
export class SeriesDays {
  /** The days with samples, in their order: those of the range after the last one before it. */
  readonly days: readonly number[];
  /** The first day of the range. */
  readonly first: number;
  readonly #parts: SeriesParts;
  /** The merged days of the range: samples or roll-ups. */
  readonly #merged: ReadonlyMap<number, StoredSegment>;

  constructor(parts: SeriesParts) {
    const { rows, unmerged, range } = parts;
    this.#parts = parts;
    this.first = range.from;
    this.#merged = new Map(rows.days.map((one) => [one.day, one]));
    const earlier = rows.before === null ? [] : [rows.before.day];
    const days = [...new Set([...earlier, ...this.#merged.keys(), ...unmerged.keys()])];
    const last = Math.max(...days.filter((day) => day < range.from));
    this.days = days.filter((day) => day >= Math.min(last, range.from)).sort((one, other) => one - other);
  }

  /** The roll-ups of a day: those stored, or of its samples, with intervals of `step` until `end`. */
  async bucketsOf(day: number, step: Milliseconds, end: EpochMs): Promise<Bucket[]> {
    const { rows, unmerged, source } = this.#parts;
    if (!unmerged.has(day)) {
      if (rows.before?.day === day) return decodeRollup(rows.before.body, day * DAY_MS, rollupSteps['1d']);
      const stored = this.#merged.get(day);
      if (source !== null && stored !== undefined) return decodeRollup(stored.body, day * DAY_MS, rollupSteps[source]);
    }
    return rollUp(await this.samplesOf(day), step, end);
  }

  /** All samples of a day, in their order. */
  async samplesOf(day: number): Promise<Sample[]> {
    const merged = await this.#mergedSamples(day);
    const known = Math.max(0, ...merged.map(({ part }) => part));
    const { parts, reported, pending } = this.#parts.unmerged.get(day) ?? { parts: [], reported: [], pending: [] };
    const samples: Sample[] = [];
    for (const { body } of [...merged, ...parts.filter(({ part }) => part > known)]) {
      for (const sample of decodeSegment(body)) samples.push(sample);
      await nextTurn();
    }
    for (const { version, sample } of reported) if (version > known) samples.push(sample);
    // They may have been committed since.
    for (const one of pending) if (!samples.some((sample) => bySampleOrder(sample, one) === 0)) samples.push(one);
    return samples.sort(bySampleOrder);
  }

  async #mergedSamples(day: number): Promise<StoredSegment[]> {
    const { rows, source, segments } = this.#parts;
    const stored = this.#merged.get(day);
    if (stored !== undefined && source === null) return [stored];
    // Read after the rest: it may have been merged again since, with samples that were read before.
    return stored !== undefined || rows.before?.day === day ? segments(day) : [];
  }
}

/** A series of a device whose reports are read. */
interface PathSamples {
  path: SeriesPath;
  samples: Reported[];
}

/**
 * The samples of each series in reports that are not compacted; a path is null if no series has it. The reports of a device
 * are parsed once.
 */
async function reportedOf(all: readonly SeriesRows[], paths: readonly (SeriesPath | null)[]): Promise<Reported[][]> {
  const found: Reported[][] = all.map(() => []);
  const byTail = new Map<readonly ReportRow[], PathSamples[]>();
  for (const [n, { tail }] of all.entries()) {
    const path = paths[n] ?? null;
    if (tail.length === 0 || path === null) continue;
    byTail.set(tail, [...(byTail.get(tail) ?? []), { path, samples: found[n] as Reported[] }]);
  }
  for (const [tail, series] of byTail) await addReported(tail, series);
  return found;
}

async function addReported(rows: readonly ReportRow[], series: readonly PathSamples[]): Promise<void> {
  let bytes = 0;
  for (const { text, version } of rows) {
    for (const report of JSON.parse(text) as StoredReport[]) {
      for (const { path, samples } of series) {
        const sample = sampleOf(report, path);
        if (sample !== null) samples.push({ version, sample });
      }
    }
    bytes += text.length;
    if (bytes < BYTES_PER_TURN) continue;
    bytes = 0;
    await nextTurn();
  }
}

function sampleOf(report: StoredReport, path: SeriesPath | null): Sample | null {
  const [at, time, sequence] = report;
  const value = path === null ? undefined : sampleValueAt(report, path);
  return value === undefined ? null : { time, at, sequence, value };
}
