import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { DAY_MS } from '../domain/day.ts';
import { rollUp } from '../domain/history/bucket.ts';
import { encodeRollup, type RollupStep, rollupSteps } from '../domain/history/rollup.ts';
import type { Sample } from '../domain/history/sample.ts';
import { decodeSegment, encodeSegment } from '../domain/history/segment.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import type { DayNumber, MergedSeries, OpenSeries, PropertySegment } from '../store/contract/history.ts';
import type { Store } from '../store/contract.ts';
import type { CompactionLimits } from './compaction-limits.ts';

interface HistoryMergeParts {
  store: Pick<Store, 'history'>;
  limits: Pick<CompactionLimits, 'mergeBytes' | 'mergeSamples' | 'maxPauseMs'>;
  isStopped(): boolean;
}

/** Merges the segments of complete days and makes their roll-ups, several properties of a device in one statement. */
export class HistoryMerge {
  /** Days of a property that were merged since the start. */
  merged = 0;
  /** Samples that came after those of their day had expired, since the start. */
  dropped = 0;
  readonly #parts: HistoryMergeParts;

  constructor(parts: HistoryMergeParts) {
    this.#parts = parts;
  }

  /** Merges the days of a device before `before`. If the shard moves, the next sweep merges the rest. */
  async mergeDays(deviceId: Uuid, tenantId: Uuid, before: DayNumber): Promise<void> {
    const { store, limits, isStopped } = this.#parts;
    const { version, series } = await store.history.openSeries(deviceId, before);
    for (const batch of batchesOf(series, limits)) {
      const began = performance.now();
      if (isStopped() || !(await this.#mergeBatch(deviceId, tenantId, batch))) return;
      await pause(Math.min(performance.now() - began, limits.maxPauseMs));
    }
    await store.history.closeDays(deviceId, tenantId, version, before);
  }

  /** False if the shard has moved, or another process has merged a day: it stays open until the next sweep. */
  async #mergeBatch(deviceId: Uuid, tenantId: Uuid, { day, series }: Batch): Promise<boolean> {
    const { history } = this.#parts.store;
    const properties = series.map(({ property }) => property);
    const segments = await history.segments(tenantId, deviceId, day, properties);
    const byProperty = Map.groupBy(segments, ({ property }) => property);
    const merged: MergedSeries[] = [];
    for (const open of series) {
      const own = byProperty.get(open.property) ?? [];
      const hasExpired = open.mergedPart !== null && !own.some(({ part }) => part === open.mergedPart);
      if (!hasExpired) merged.push(await mergeSegments(open, own));
      else if (!(await this.#discardLate(deviceId, tenantId, open, own))) return false;
    }
    if (merged.length > 0 && !(await history.merge(deviceId, tenantId, merged))) return false;
    this.merged += merged.length;
    return true;
  }

  /** The roll-ups have samples that are no longer stored. */
  async #discardLate(
    deviceId: Uuid,
    tenantId: Uuid,
    { property, day, mergedPart }: OpenSeries,
    segments: readonly PropertySegment[],
  ): Promise<boolean> {
    const part = lastPartOf(segments);
    const late = { deviceId, tenantId, property, day, mergedPart, part };
    const isDiscarded = await this.#parts.store.history.discardLate(late);
    if (isDiscarded) for (const { body } of segments) this.dropped += decodeSegment(body).length;
    return isDiscarded;
  }
}

/** Series of one day that are merged at once. */
interface Batch {
  day: DayNumber;
  series: OpenSeries[];
}

/** In their order; at least one series each, and otherwise at most as many bytes of segments and samples as the limits. */
function batchesOf(
  series: readonly OpenSeries[],
  limits: Pick<CompactionLimits, 'mergeBytes' | 'mergeSamples'>,
): Batch[] {
  const batches: Batch[] = [];
  let batch: Batch | null = null;
  let bytes = 0;
  let samples = 0;
  for (const one of series) {
    bytes += one.bytes;
    samples += one.samples;
    const isFull = bytes > limits.mergeBytes || samples > limits.mergeSamples;
    if (batch === null || batch.day !== one.day || isFull) {
      batch = { day: one.day, series: [] };
      batches.push(batch);
      ({ bytes, samples } = one);
    }
    batch.series.push(one);
  }
  return batches;
}

const lastPartOf = (segments: readonly PropertySegment[]): number =>
  segments.reduce((last, { part }) => Math.max(last, part), 0);

async function mergeSegments(
  { property, day }: OpenSeries,
  segments: readonly PropertySegment[],
): Promise<MergedSeries> {
  const samples: Sample[] = [];
  for (const segment of segments) {
    for (const sample of decodeSegment(segment.body)) samples.push(sample);
    await nextTurn();
  }
  const body = await encodeSegment(samples);
  const rollups = {} as Record<RollupStep, Uint8Array>;
  for (const [name, step] of Object.entries(rollupSteps) as [RollupStep, Milliseconds][]) {
    rollups[name] = await encodeRollup(day * DAY_MS, step, rollUp(samples, step));
    await nextTurn();
  }
  return { property, day, part: lastPartOf(segments), samples: samples.length, body, rollups };
}
