import { setImmediate as nextTurn } from 'node:timers/promises';
import { DAY_MS, dayOf } from '../../domain/day.ts';
import { type Bucket, rollUp } from '../../domain/history/bucket.ts';
import { decodeRollup, forEachBucket, type RollupStep, rollupSteps } from '../../domain/history/rollup.ts';
import {
  bySampleOrder,
  type Sample,
  type SeriesPath,
  type StoredReport,
  sampleValueAt,
  seriesPathOf,
} from '../../domain/history/sample.ts';
import { samplesIn } from '../../domain/history/segment.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import type { ReportRow, SeriesKey, SeriesRange, SeriesRows, StoredSegment } from '../../store/contract/history.ts';
import type { Services } from '../operation.ts';

// A stored series by day: segments, roll-ups, and reports that are not compacted.

/** Bytes of reports that are parsed before other work gets its turn. */
const BYTES_PER_TURN = 128 * 1024;
/** A series, with reports of its device that wait in memory for its next commit. */
export interface RequestedSeries extends SeriesKey {
  pending?: readonly StoredReport[];
}

/** A series of a tenant. */
export interface SeriesRef extends RequestedSeries {
  tenantId: Uuid;
}

const BEING_COMPACTED = refuse(
  'OVERLOADED',
  'The device has reported more than can be read at once. Retry in a minute.',
);

/** The series of one property. `source` null: samples. */
export async function readOneSeries(
  services: Pick<Services, 'store'>,
  { tenantId, ...key }: SeriesRef,
  range: SeriesRange,
  source: RollupStep | null,
): Promise<Outcome<SeriesDays>> {
  for await (const read of readSeriesDays(services, { tenantId, keys: [key] }, range, source)) return read;
  return BEING_COMPACTED;
}

/**
 * The series in the order of the keys; `source` null: samples. If they have more than one statement reads, half of them are
 * read after the other half, so that both are not in memory, until it is one series whose device has too much.
 */
export async function* readSeriesDays(
  services: Pick<Services, 'store'>,
  { tenantId, keys }: { tenantId: Uuid; keys: readonly RequestedSeries[] },
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
    yield* readSeriesDays(services, { tenantId, keys: keys.slice(0, half) }, range, source);
    yield* readSeriesDays(services, { tenantId, keys: keys.slice(half) }, range, source);
    return;
  }
  const paths = keys.map(({ property }) => seriesPathOf(property));
  const reported = new ReportedSamples(all, paths);
  for (const [n, rows] of all.entries()) {
    const { deviceId, property, pending = [] } = keys[n] as RequestedSeries;
    const waiting = pending.flatMap((report) => sampleOf(report, paths[n] ?? null) ?? []);
    const unmerged = unmergedOf({ rows, reported: await reported.of(n), pending: waiting }, range);
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

/** By day, up to the last one of the range. An import may have samples of any earlier day. */
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
  const isRead = (day: number): boolean => day <= to && (day >= from || !withoutEarlier);
  for (const part of rows.parts) on(part.day).parts.push(part);
  for (const one of reported) {
    const day = dayOf(one.sample.time);
    if (isRead(day)) on(day).reported.push(one);
  }
  for (const sample of pending) {
    const day = dayOf(sample.time);
    if (isRead(day)) on(day).pending.push(sample);
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
    const stored = this.#storedRollup(day);
    if (stored === null) return rollUp(await this.samplesOf(day), step, end);
    return decodeRollup(stored.body, day * DAY_MS, stored.step);
  }

  /** Calls `visit` with each of them; the bucket may be the same object each time. */
  async visitBuckets(day: number, step: Milliseconds, end: EpochMs, visit: (bucket: Readonly<Bucket>) => void) {
    const stored = this.#storedRollup(day);
    if (stored === null) for (const bucket of rollUp(await this.samplesOf(day), step, end)) visit(bucket);
    else forEachBucket(stored.body, day * DAY_MS, stored.step, visit);
  }

  #storedRollup(day: number): { body: Uint8Array; step: Milliseconds } | null {
    const { rows, unmerged, source } = this.#parts;
    if (unmerged.has(day)) return null;
    if (rows.before?.day === day) return { body: rows.before.body, step: rollupSteps['1d'] };
    const stored = this.#merged.get(day);
    return source === null || stored === undefined ? null : { body: stored.body, step: rollupSteps[source] };
  }

  /** All samples of a day, in their order. */
  async samplesOf(day: number): Promise<Sample[]> {
    const samples = await this.eachSampleOf(day);
    return Array.isArray(samples) ? samples : [...samples];
  }

  /** The same; those of a merged day are decoded while they are read. */
  async eachSampleOf(day: number): Promise<Iterable<Sample>> {
    const merged = await this.#mergedSamples(day);
    const known = Math.max(0, ...merged.map(({ part }) => part));
    const { parts, reported, pending } = this.#parts.unmerged.get(day) ?? { parts: [], reported: [], pending: [] };
    const segments = [...merged, ...parts.filter(({ part }) => part > known)];
    const [first] = segments;
    if (first !== undefined && segments.length + reported.length + pending.length === 1) return samplesIn(first.body);
    const samples: Sample[] = [];
    for (const { body } of segments) {
      for (const sample of samplesIn(body)) samples.push(sample);
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
 * are parsed once, for the first of its series: the samples of one device at a time are in memory if its series follow one
 * another.
 */
class ReportedSamples {
  readonly #all: readonly SeriesRows[];
  readonly #paths: readonly (SeriesPath | null)[];
  /** By the number of the series, until they are used. */
  readonly #found = new Map<number, Reported[]>();

  constructor(all: readonly SeriesRows[], paths: readonly (SeriesPath | null)[]) {
    this.#all = all;
    this.#paths = paths;
  }

  /** Called once for each series. */
  async of(n: number): Promise<readonly Reported[]> {
    const { tail } = this.#all[n] as SeriesRows;
    if (tail.length === 0 || this.#paths[n] === null) return [];
    if (!this.#found.has(n)) await this.#parse(tail);
    const samples = this.#found.get(n) ?? [];
    this.#found.delete(n);
    return samples;
  }

  async #parse(tail: readonly ReportRow[]): Promise<void> {
    const series: PathSamples[] = [];
    for (const [n, rows] of this.#all.entries()) {
      const path = this.#paths[n] ?? null;
      if (rows.tail !== tail || path === null) continue;
      const samples: Reported[] = [];
      this.#found.set(n, samples);
      series.push({ path, samples });
    }
    await addReported(tail, series);
  }
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
