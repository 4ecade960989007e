import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Bucket, BucketMerger, rollUp } from '../../domain/history/bucket.ts';
import { DAY_MS, dayOf } from '../../domain/history/report-collector.ts';
import { decodeRollup, type RollupStep, rollupSteps } from '../../domain/history/rollup.ts';
import {
  bySampleOrder,
  pathNamesOf,
  type Sample,
  type StoredReport,
  sampleValueAt,
} from '../../domain/history/sample.ts';
import { decodeSegment } from '../../domain/history/segment.ts';
import { rollupFor } from '../../domain/history/step.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';
import type { ReportRow, SeriesRange, SeriesRows, StoredSegment } from '../../store/contract/history.ts';
import type { Services } from '../operation.ts';

/** Bytes of reports that are parsed before other work gets its turn. */
const BYTES_PER_TURN = 128 * 1024;

export interface SeriesRequest {
  tenantId: Uuid;
  deviceId: Uuid;
  property: string;
  from: EpochMs;
  /** Exclusive. */
  to: EpochMs;
}

/** The samples of the range that are retained, in their order, and one more than `limit` at least if there are more. */
export async function readSamples(
  services: Pick<Services, 'store'>,
  request: SeriesRequest,
  limit: number,
): Promise<Outcome<Sample[]>> {
  const { from, to } = request;
  const samples: Sample[] = [];
  const last = dayOf(to - 1);
  // More days at a time, up to a week, as long as they have few samples.
  for (
    let day = dayOf(from), days = 1;
    day <= last && samples.length <= limit;
    day += days, days = Math.min(2 * days, 7)
  ) {
    const read = await readDays(services, request, { from: day, to: Math.min(day + days - 1, last) });
    if (!read.ok) return read;
    for (const sample of read.value.samples) if (sample.time >= from && sample.time < to) samples.push(sample);
  }
  return done(samples);
}

/** All samples of the days, in their order. */
async function readDays(
  { store }: Pick<Services, 'store'>,
  { tenantId, deviceId, property }: SeriesRequest,
  range: SeriesRange,
): Promise<Outcome<{ samples: Sample[]; before: SeriesRows['before'] }>> {
  const rows = await store.history.series(tenantId, deviceId, property, range, null);
  if (!rows.complete) return BEING_COMPACTED;
  const samples: Sample[] = [];
  const put = (sample: Sample): void => {
    const day = dayOf(sample.time);
    if (day >= range.from && day <= range.to) samples.push(sample);
  };
  for (const { day, body } of [...rows.days, ...rows.parts]) {
    if (day < range.from) continue;
    for (const sample of decodeSegment(body)) put(sample);
    await nextTurn();
  }
  for (const sample of await samplesOfReports(rows.tail, property)) put(sample);
  return done({ samples: samples.sort(bySampleOrder), before: rows.before });
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
  const { tenantId, deviceId, property, from, to } = request;
  const range = { from: dayOf(from), to: dayOf(to - 1) };
  const source = rollupFor(step);
  const merger = new BucketMerger(step, from);
  if (source === null) {
    const read = await readDays(services, request, range);
    if (!read.ok) return read;
    const { samples, before } = read.value;
    for (const bucket of [...dailyBuckets(before), ...rollUp(samples, step, until)])
      if (bucket.start < to) merger.add(bucket, Math.min(bucket.start + step, until));
    return done({ source: 'samples', buckets: merger.finish(until) });
  }
  const rows = await services.store.history.series(tenantId, deviceId, property, range, source);
  if (!rows.complete) return BEING_COMPACTED;
  const length = rollupSteps[source];
  const days = await mergedDays(rows, source);
  for (const [day, samples] of await unmergedDays(services, request, rows)) {
    days.set(day, rollUp(samples, length, until));
    await nextTurn();
  }
  for (const [, buckets] of [...days].sort(([one], [other]) => one - other)) {
    for (const bucket of buckets) if (bucket.start < to) merger.add(bucket, Math.min(bucket.start + length, until));
  }
  return done({ source, buckets: merger.finish(until) });
}

const BEING_COMPACTED = refuse(
  'OVERLOADED',
  'The device has reported more than can be read at once. Retry in a minute.',
);

const dailyBuckets = (before: SeriesRows['before']): Bucket[] =>
  before === null ? [] : decodeRollup(before.body, before.day * DAY_MS, rollupSteps['1d']);

/** The buckets of each day whose roll-ups are stored. The day before the range has the state at its start. */
async function mergedDays({ days, before }: SeriesRows, source: RollupStep): Promise<Map<number, Bucket[]>> {
  const buckets = new Map<number, Bucket[]>();
  if (before !== null) buckets.set(before.day, dailyBuckets(before));
  let decoded = 0;
  for (const { day, body } of days) {
    buckets.set(day, decodeRollup(body, day * DAY_MS, rollupSteps[source]));
    decoded += 1;
    if (decoded % 50 === 0) await nextTurn();
  }
  return buckets;
}

/** All samples of each day with samples that are not merged, in their order. */
async function unmergedDays(
  { store }: Pick<Services, 'store'>,
  { deviceId, property, to }: SeriesRequest,
  rows: SeriesRows,
): Promise<Map<number, Sample[]>> {
  const later = new Map<number, (Pick<StoredSegment, 'part'> & { samples: Sample[] })[]>();
  const put = (day: number, part: number, samples: Sample[]): void => {
    if (day <= dayOf(to - 1)) later.set(day, [...(later.get(day) ?? []), { part, samples }]);
  };
  for (const { day, part, body } of rows.parts) {
    put(day, part, decodeSegment(body));
    await nextTurn();
  }
  for (const row of rows.tail) {
    for (const sample of await samplesOfReports([row], property)) put(dayOf(sample.time), row.version, [sample]);
  }
  const days = new Map<number, Sample[]>();
  for (const [day, added] of later) {
    const isMerged = rows.days.some((one) => one.day === day) || rows.before?.day === day;
    // Read after the rest: it may have been merged again since, with samples that were read before.
    const merged = isMerged ? await store.history.segments(deviceId, property, day) : [];
    const known = Math.max(0, ...merged.map(({ part }) => part));
    const samples = [
      ...merged.flatMap(({ body }) => decodeSegment(body)),
      ...added.filter(({ part }) => part > known).flatMap((one) => one.samples),
    ];
    days.set(day, samples.sort(bySampleOrder));
  }
  return days;
}

async function samplesOfReports(rows: readonly ReportRow[], property: string): Promise<Sample[]> {
  const names = pathNamesOf(property);
  const samples: Sample[] = [];
  let bytes = 0;
  for (const { text } of rows) {
    for (const [at, time, sequence, report] of JSON.parse(text) as StoredReport[]) {
      const value = sampleValueAt(report, names);
      if (value !== undefined) samples.push({ time, at, sequence, value });
    }
    bytes += text.length;
    if (bytes < BYTES_PER_TURN) continue;
    bytes = 0;
    await nextTurn();
  }
  return samples;
}
