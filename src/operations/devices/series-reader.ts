import { setImmediate as nextTurn } from 'node:timers/promises';
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
import type { ReportRow, SeriesRange, SeriesRows, StoredSegment } from '../../store/contract/history.ts';
import type { Services } from '../operation.ts';

/** Bytes of reports that are parsed before other work gets its turn. */
const BYTES_PER_TURN = 128 * 1024;
/** Days that one statement reads at most: all their compressed samples are in memory. */
const MAX_READ_DAYS = 7;

/** The series of a property. */
export interface SeriesRef {
  tenantId: Uuid;
  deviceId: Uuid;
  property: string;
  /** Reports of the device that wait in memory for its next commit. */
  pending?: readonly StoredReport[];
}

export interface SeriesRequest extends SeriesRef {
  from: EpochMs;
  /** Exclusive. */
  to: EpochMs;
}

export interface SampleSeries {
  /** In their order. */
  samples: Sample[];
  /** Of the last sample before the range; null without one. */
  before: SampleValue | null;
}

/** The samples of the range that are retained, and one more than `limit` at least if there are more. */
export async function readSamples(
  services: Pick<Services, 'store'>,
  request: SeriesRequest,
  limit: number,
): Promise<Outcome<SampleSeries>> {
  const { from, to } = request;
  const samples: Sample[] = [];
  let before: SampleValue | null = null;
  const first = dayOf(from);
  const last = dayOf(to - 1);
  // More days at a time, as most devices report seldom.
  for (let day = first, count = 1; day <= last; day += count, count = Math.min(2 * count, MAX_READ_DAYS)) {
    const range: SeriesRange = {
      ...{ from: day, to: Math.min(day + count - 1, last) },
      ...(day > first && { withoutEarlier: true }),
    };
    const read = await readSeries(services, request, range, null);
    if (!read.ok) return read;
    for (const one of read.value.days) {
      if (one < first) before = (await read.value.bucketsOf(one, DAY_MS, to)).at(-1)?.last ?? null;
      if (one < day) continue;
      for (const sample of await read.value.samplesOf(one)) {
        if (sample.time < from) before = sample.value;
        else if (sample.time < to) samples.push(sample);
      }
      if (samples.length > limit) return done({ samples, before });
      await nextTurn();
    }
  }
  return done({ samples, before });
}

/** Source of a range: `samples`, or the roll-ups of a step. */
export type SeriesSource = 'samples' | RollupStep;

/** Intervals of `step` of the range; `from` is a multiple of it. States last until `until`, which is at most `to`. */
export async function readBuckets(
  services: Pick<Services, 'store'>,
  request: SeriesRequest,
  step: Milliseconds,
  until: EpochMs,
): Promise<Outcome<{ source: SeriesSource; buckets: Bucket[] }>> {
  const { from, to } = request;
  const source = rollupFor(step);
  const length = source === null ? step : rollupSteps[source];
  const read = await readSeries(services, request, { from: dayOf(from), to: dayOf(to - 1) }, source);
  if (!read.ok) return read;
  const merger = new BucketMerger(step, from);
  for (const day of read.value.days) {
    // An interval may continue on the next day, whose samples end the last state of this one.
    const end = Math.min(until, (day + 1) * DAY_MS);
    for (const bucket of await read.value.bucketsOf(day, length, end))
      if (bucket.start < to) merger.add(bucket, Math.min(bucket.start + length, end));
    await nextTurn();
  }
  return done({ source: source ?? 'samples', buckets: merger.finish(until) });
}

const BEING_COMPACTED = refuse(
  'OVERLOADED',
  'The device has reported more than can be read at once. Retry in a minute.',
);

/** `source` null: samples. */
export async function readSeries(
  { store }: Pick<Services, 'store'>,
  { tenantId, deviceId, property, pending = [] }: SeriesRef,
  range: SeriesRange,
  source: RollupStep | null,
): Promise<Outcome<SeriesDays>> {
  const rows = await store.history.series(tenantId, deviceId, property, range, source);
  if (!rows.complete) return BEING_COMPACTED;
  const unmerged = await unmergedOf({ rows, pending, path: seriesPathOf(property) }, range.to);
  const segments = (day: number) => store.history.segments(tenantId, deviceId, day, [property]);
  return done(new SeriesDays({ rows, unmerged, range, source, segments }));
}

/** The samples of a day that are not merged. */
interface UnmergedDay {
  parts: StoredSegment[];
  /** From reports that are not compacted. */
  reported: { version: number; sample: Sample }[];
  /** From reports that were not committed when the request began. */
  pending: Sample[];
}

interface Unmerged {
  rows: SeriesRows;
  pending: readonly StoredReport[];
  /** Null for a property that has no samples. */
  path: SeriesPath | null;
}

/** By day, up to the day `last`. */
async function unmergedOf({ rows, path, pending }: Unmerged, last: number): Promise<Map<number, UnmergedDay>> {
  const byDay = new Map<number, UnmergedDay>();
  const on = (day: number): UnmergedDay => {
    const known = byDay.get(day) ?? { parts: [], reported: [], pending: [] };
    byDay.set(day, known);
    return known;
  };
  for (const part of rows.parts) on(part.day).parts.push(part);
  await forEachReported(rows.tail, path, (sample, version) => {
    const day = dayOf(sample.time);
    if (day <= last) on(day).reported.push({ version, sample });
  });
  for (const report of pending) {
    const sample = sampleOf(report, path);
    if (sample !== null && dayOf(sample.time) <= last) on(dayOf(sample.time)).pending.push(sample);
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
  readonly #parts: SeriesParts;
  /** The merged days of the range: samples or roll-ups. */
  readonly #merged: ReadonlyMap<number, StoredSegment>;

  constructor(parts: SeriesParts) {
    const { rows, unmerged, range } = parts;
    this.#parts = parts;
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

/** Calls `visit` for each sample of a property in reports that are not compacted. */
async function forEachReported(
  rows: readonly ReportRow[],
  path: SeriesPath | null,
  visit: (sample: Sample, version: number) => void,
): Promise<void> {
  let bytes = 0;
  for (const { text, version } of rows) {
    for (const report of JSON.parse(text) as StoredReport[]) {
      const sample = sampleOf(report, path);
      if (sample !== null) visit(sample, version);
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
