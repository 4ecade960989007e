import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import { DAY_MS, dayOf } from '../domain/day.ts';
import { rollUp } from '../domain/history/bucket.ts';
import { ReportCollector } from '../domain/history/report-collector.ts';
import { encodeRollup, type RollupStep, rollupSteps } from '../domain/history/rollup.ts';
import type { Sample, StoredReport } from '../domain/history/sample.ts';
import { decodeSegment, encodeSegment } from '../domain/history/segment.ts';
import type { Log } from '../domain/log.ts';
import { type OwnedShards, shardOf } from '../domain/shards.ts';
import { NIL_UUID } from '../domain/uuid.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import {
  type DayNumber,
  type HistoryBacklog,
  MAX_DEVICE_SKEW_MS,
  type OpenSeries,
  type ReportRow,
  type SegmentRow,
} from '../store/contract/history.ts';
import { type Store, StoreUnavailable } from '../store/contract.ts';

/** Reports of a device since its last compaction from which on it is compacted in the next minute. */
const DUE_REPORTS = 500;
/** Reports that are divided into samples before other work gets its turn. */
const REPORTS_PER_TURN = 64;
/** Rows with reports that are compacted at once, and their bytes: parsing them is the longest step between two pauses. */
const MAX_ROWS = 500;
const MAX_BYTES = 1024 * 1024;
/** Bytes of reports that are parsed before other work gets its turn. */
const BYTES_PER_TURN = 128 * 1024;
/** Times that up to so many rows of a device are compacted before others are: 32,000 rows or 64 MB. */
const MAX_STEPS = 64;
/** Devices whose backlog is read at a time. */
const PAGE = 500;

interface HistoryCompactionParts {
  store: Pick<Store, 'history'>;
  clock: Clock;
  log: Log;
  /** The shards of this process. */
  shards(): OwnedShards;
}

/**
 * Compaction of the history of devices: divides reports into compressed segments of each property, and when a day is
 * complete merges its segments and makes its roll-ups. Each step is one statement that moves or replaces what it has read, so
 * that a sample is neither lost nor counted twice, wherever the process ends.
 */
export class HistoryCompaction {
  /** Devices whose compaction failed since the start. */
  failures = 0;
  /** Samples that exceeded the limits of a day, or came after those of their day had expired, since the start. */
  dropped = 0;
  readonly #parts: HistoryCompactionParts;
  /** Reports by device since its last compaction. */
  readonly #reports = new Map<Uuid, { tenantId: Uuid; count: number }>();
  #stopped = false;
  /** When the oldest report was received that the last sweep could not compact. */
  #oldest: EpochMs | null = null;

  constructor(parts: HistoryCompactionParts) {
    this.#parts = parts;
  }

  sizes(): CollectionSizes {
    return { history_reporting_devices: this.#reports.size };
  }

  /** Age of the oldest report that the last sweep could not compact; 0 if it compacted all that were due. */
  oldestAgeMs(): Milliseconds {
    return this.#oldest === null ? 0 : Math.max(0, this.#parts.clock.now() - this.#oldest);
  }

  /** Counts an accepted report. */
  recordReport(deviceId: Uuid, tenantId: Uuid): void {
    const entry = this.#reports.get(deviceId);
    if (entry === undefined) this.#reports.set(deviceId, { tenantId, count: 1 });
    else entry.count += 1;
  }

  /** The compaction of the current device is the last one. */
  stop(): void {
    this.#stopped = true;
  }

  /** Compacts the devices with many reports. */
  async compactBusy(): Promise<void> {
    const due = [...this.#reports].filter(([, { count }]) => count >= DUE_REPORTS);
    for (const [deviceId, { tenantId }] of due) {
      if (this.#stopped) return;
      this.#reports.delete(deviceId);
      if (!this.#owns(tenantId)) continue;
      try {
        await this.#attempt(deviceId, () => this.#compactReports(deviceId, tenantId));
      } catch (error) {
        // The store is not available. Behind the others, in case it is not for this device alone.
        this.#setDue(deviceId, tenantId);
        throw error;
      }
    }
  }

  /** Compacts all devices with many reports or reports of a complete day, and merges complete days. */
  async sweep(): Promise<void> {
    const { store, shards, clock } = this.#parts;
    const before = dayOf(clock.now() - MAX_DEVICE_SKEW_MS);
    // The others have few reports, and are in this sweep if these are of a complete day.
    for (const [deviceId, { count }] of this.#reports) if (count < DUE_REPORTS) this.#reports.delete(deviceId);
    let oldest: EpochMs | null = null;
    for (let after: Uuid | null = NIL_UUID; after !== null && !this.#stopped; ) {
      const { backlogs, next }: { backlogs: HistoryBacklog[]; next: Uuid | null } = await store.history.backlogs(
        ...[after, PAGE, MAX_ROWS, shards()],
      );
      for (const backlog of backlogs) {
        if (this.#stopped) return;
        // The shard may have moved since the page was read.
        if (!this.#owns(backlog.tenantId)) continue;
        const isDone = await this.#attempt(backlog.deviceId, () => this.#sweepDevice(backlog, before));
        if (!isDone && backlog.oldest !== null) oldest = Math.min(oldest ?? backlog.oldest, backlog.oldest);
      }
      after = next;
    }
    this.#oldest = oldest;
  }

  /**
   * The time before which the reports of all devices are compacted, whichever process compacts them, and the earliest day
   * that is not merged. Reports that are being stored have a time shortly before the current one, and versions are not in the
   * order of times.
   */
  async progress(): Promise<{ compactedBefore: EpochMs; openFrom: DayNumber | null }> {
    const { store, clock } = this.#parts;
    let before = clock.now();
    let earliest: DayNumber | null = null;
    for (let after: Uuid | null = NIL_UUID; after !== null; ) {
      const { backlogs, next }: { backlogs: HistoryBacklog[]; next: Uuid | null } = await store.history.backlogs(
        ...[after, PAGE, 1],
      );
      for (const { oldest, openFrom } of backlogs) {
        if (oldest !== null) before = Math.min(before, oldest);
        if (openFrom !== null) earliest = Math.min(earliest ?? openFrom, openFrom);
      }
      after = next;
    }
    return { compactedBefore: before - MAX_DEVICE_SKEW_MS, openFrom: earliest };
  }

  #owns(tenantId: Uuid): boolean {
    const shards = this.#parts.shards();
    return shards === null || shards.includes(shardOf(tenantId));
  }

  /** False if it failed or some reports remain. A device that cannot be compacted does not stop those after it. */
  async #attempt(deviceId: Uuid, compact: () => Promise<boolean>): Promise<boolean> {
    try {
      return await compact();
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      this.failures += 1;
      this.#parts.log.error({ err: error, deviceId }, 'history compaction of a device failed; retrying');
      return false;
    }
  }

  async #sweepDevice(
    { deviceId, tenantId, deleted, rows, oldest, openFrom }: HistoryBacklog,
    before: number,
  ): Promise<boolean> {
    const { store } = this.#parts;
    if (deleted) {
      await store.history.deleteDevice(deviceId, tenantId);
      return true;
    }
    const isComplete = oldest !== null && oldest < before * DAY_MS + MAX_DEVICE_SKEW_MS;
    const isCompacted = !(rows >= MAX_ROWS || isComplete) || (await this.#compactReports(deviceId, tenantId));
    if (!isCompacted) return false;
    if (isComplete || (openFrom !== null && openFrom < before)) await this.#mergeDays(deviceId, tenantId, before);
    return true;
  }

  /** False if some reports remain; the device is due in the next minute then. */
  async #compactReports(deviceId: Uuid, tenantId: Uuid): Promise<boolean> {
    const { history } = this.#parts.store;
    for (let step = 0; step < MAX_STEPS && !this.#stopped; step += 1) {
      const { version, rows } = await history.tail(deviceId, MAX_ROWS, MAX_BYTES);
      const last = rows.at(-1);
      if (last === undefined) return true;
      const { reports, bytes } = await parseReports(rows);
      const days = new Set(reports.map(([, time]) => dayOf(time)));
      const collector = new ReportCollector(await history.sampleCounts(deviceId, [...days]));
      for (const [n, report] of reports.entries()) {
        collector.add(report);
        if (n % REPORTS_PER_TURN === 0) await nextTurn();
      }
      const segments: SegmentRow[] = [];
      for (const { property, day, samples } of collector.series()) {
        segments.push({ property, day, samples: samples.length, body: await encodeSegment(samples) });
      }
      // False if another process has compacted them.
      const isStored = await history.compact({ deviceId, tenantId, from: version, to: last.version, segments });
      if (!isStored) return true;
      this.dropped += collector.dropped;
      // A tail that ends below both limits has all.
      if (rows.length < MAX_ROWS && bytes < MAX_BYTES) return true;
    }
    this.#setDue(deviceId, tenantId);
    return false;
  }

  #setDue(deviceId: Uuid, tenantId: Uuid): void {
    this.#reports.set(deviceId, { tenantId, count: DUE_REPORTS });
  }

  /** Merges the segments of complete days, one property after another. */
  async #mergeDays(deviceId: Uuid, tenantId: Uuid, before: number): Promise<void> {
    const { history } = this.#parts.store;
    const { version } = await history.tail(deviceId, 1, 1);
    for (const open of await history.openSeries(deviceId, before))
      if (this.#stopped || !(await this.#mergeDay(deviceId, tenantId, open))) return;
    await history.closeDays(deviceId, tenantId, version, before);
  }

  /** False if the shard has moved, or another process has merged the day: it stays open until the next sweep. */
  async #mergeDay(deviceId: Uuid, tenantId: Uuid, open: OpenSeries): Promise<boolean> {
    const { history } = this.#parts.store;
    const { property, day, mergedPart } = open;
    const samples: Sample[] = [];
    let part = 0;
    const segments = await history.segments(deviceId, property, day);
    const hasExpired = mergedPart !== null && !segments.some((segment) => segment.part === mergedPart);
    for (const segment of segments) {
      for (const sample of decodeSegment(segment.body)) samples.push(sample);
      part = Math.max(part, segment.part);
      await nextTurn();
    }
    if (hasExpired) {
      // The roll-ups have samples that are no longer stored.
      const isDiscarded = await history.discardLate({ ...open, deviceId, tenantId, part });
      if (isDiscarded) this.dropped += samples.length;
      return isDiscarded;
    }
    const body = await encodeSegment(samples);
    const rollups = {} as Record<RollupStep, Uint8Array>;
    for (const [name, step] of Object.entries(rollupSteps) as [RollupStep, Milliseconds][]) {
      rollups[name] = await encodeRollup(day * DAY_MS, step, rollUp(samples, step));
    }
    return history.merge({ deviceId, tenantId, property, day, part, samples: samples.length, body, rollups });
  }
}

/** The reports of rows, and the length of the rows. */
async function parseReports(rows: readonly ReportRow[]): Promise<{ reports: StoredReport[]; bytes: number }> {
  const reports: StoredReport[] = [];
  let bytes = 0;
  let turnBytes = 0;
  for (const { text } of rows) {
    for (const report of JSON.parse(text) as StoredReport[]) reports.push(report);
    bytes += Buffer.byteLength(text);
    if (bytes - turnBytes < BYTES_PER_TURN) continue;
    turnBytes = bytes;
    await nextTurn();
  }
  return { reports, bytes };
}
