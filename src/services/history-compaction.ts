import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import { DAY_MS, dayOf } from '../domain/day.ts';
import { ReportCollector } from '../domain/history/report-collector.ts';
import type { StoredReport } from '../domain/history/sample.ts';
import { SegmentEncoder } from '../domain/history/segment.ts';
import type { Log } from '../domain/log.ts';
import { type OwnedShards, shardOf } from '../domain/shards.ts';
import { NIL_UUID } from '../domain/uuid.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import {
  type DayNumber,
  type HistoryBacklog,
  MAX_DEVICE_SKEW_MS,
  type ReportRow,
  type SegmentRow,
} from '../store/contract/history.ts';
import { CommitUnknown, type Store, StoreUnavailable } from '../store/contract.ts';
import { type CompactionLimits, defaultCompactionLimits } from './compaction-limits.ts';
import { HistoryMerge } from './history-merge.ts';
import { KeyedLocks } from './keyed-locks.ts';

/** Reports that are divided into samples before other work gets its turn. */
const REPORTS_PER_TURN = 64;
/** Bytes of reports that are parsed before other work gets its turn. */
const BYTES_PER_TURN = 128 * 1024;
/** Parts are merged when their day is complete: until then less time is worth more than the last tenth of their bytes. */
const PART_LEVEL = 3;
/** Devices whose backlog is read at a time. */
const PAGE = 500;
/** Sweeps of a day: a device with a smaller part of `maxBytes` between two of them has less than that when its day ends. */
const SWEEPS_PER_DAY = 24;

/** Number and size of the reports of a device. */
interface UncompactedReports {
  tenantId: Uuid;
  count: number;
  bytes: number;
  /** Complete days are merged, too. */
  isImport: boolean;
}

/** The bytes of a device and day, its number of properties or samples, or samples of a day whose others have expired. */
export type DropReason = 'bytes' | 'limit' | 'expired';

interface HistoryCompactionParts {
  store: Pick<Store, 'history'>;
  clock: Clock;
  log: Log;
  /** The shards of this process. */
  shards(): OwnedShards;
  limits?: Partial<CompactionLimits> | undefined;
}

/**
 * Compaction of the history of devices: divides reports into compressed segments of each property, and when a day is
 * complete merges its segments and makes its roll-ups. Each step is one statement that moves or replaces what it has read, so
 * that a sample is neither lost nor counted twice, wherever the process ends.
 */
export class HistoryCompaction {
  /** Devices whose compaction failed since the start. */
  failures = 0;
  readonly #parts: HistoryCompactionParts;
  readonly #limits: CompactionLimits;
  readonly #merge: HistoryMerge;
  /** A device is compacted by one task at a time: both would read the same reports, and the second one store nothing. */
  readonly #locks = new KeyedLocks();
  /** Reports by device since its last compaction. */
  readonly #reports = new Map<Uuid, UncompactedReports>();
  #stopped = false;
  /** When the oldest report was received that the last sweep could not compact. */
  #oldest: EpochMs | null = null;
  /** When the current sweep began, on the monotonic clock. */
  #sweepingSince: Milliseconds | null = null;
  readonly #dropped = { bytes: 0, limit: 0 };

  constructor(parts: HistoryCompactionParts) {
    const { store, limits } = parts;
    this.#parts = parts;
    this.#limits = { ...defaultCompactionLimits, ...limits };
    this.#merge = new HistoryMerge({ store, limits: this.#limits, isStopped: () => this.#stopped });
  }

  sizes(): CollectionSizes {
    return {
      history_reporting_devices: this.#reports.size,
      history_devices_compacting: this.#locks.sizes().locks ?? 0,
    };
  }

  /** Samples that were not stored, since the start. */
  get dropped(): Readonly<Record<DropReason, number>> {
    return { ...this.#dropped, expired: this.#merge.dropped };
  }

  /** Days of a property that were merged since the start. */
  get merged(): number {
    return this.#merge.merged;
  }

  /** How long the current sweep has been running; 0 between two sweeps. */
  sweepingMs(): Milliseconds {
    return this.#sweepingSince === null ? 0 : performance.now() - this.#sweepingSince;
  }

  /** Age of the oldest report that the last sweep could not compact; 0 if it compacted all that were due. */
  oldestAgeMs(): Milliseconds {
    return this.#oldest === null ? 0 : Math.max(0, this.#parts.clock.now() - this.#oldest);
  }

  /** Counts the samples of reports that were beyond the bytes of their device and day. */
  recordDropped(samples: number): void {
    this.#dropped.bytes += samples;
  }

  /** Counts an accepted report. `bytes`: of its JSON text. */
  recordReport(deviceId: Uuid, tenantId: Uuid, bytes: number): void {
    const entry = this.#reports.get(deviceId);
    if (entry === undefined) {
      this.#reports.set(deviceId, { tenantId, count: 1, bytes, isImport: false });
      return;
    }
    entry.count += 1;
    entry.bytes += bytes;
  }

  /**
   * The device is compacted in the next minute, and its complete days are merged: imported samples may be of days that
   * expire soon, or of which only roll-ups are kept.
   */
  recordImport(deviceId: Uuid, tenantId: Uuid): void {
    this.#setDue(deviceId, tenantId, true);
  }

  /** The compaction of the current device is the last one. */
  stop(): void {
    this.#stopped = true;
  }

  /** Compacts the devices with many reports, or large ones, of which a read accepts `MAX_TAIL_BYTES`. */
  async compactBusy(): Promise<void> {
    const due = [...this.#reports].filter(([, reports]) => this.#isDue(reports));
    for (const [deviceId, { tenantId, isImport }] of due) {
      if (this.#stopped) return;
      // A sweep may merge its days for a minute. It remains due.
      if (this.#locks.isHeld(deviceId)) continue;
      this.#reports.delete(deviceId);
      if (!this.#owns(tenantId)) continue;
      try {
        const isDone = await this.#attempt(deviceId, () =>
          isImport ? this.#compactImport(deviceId, tenantId) : this.#compactReports(deviceId, tenantId),
        );
        if (isImport && !isDone) this.recordImport(deviceId, tenantId);
      } catch (error) {
        // The store is not available. Behind the others, in case it is not for this device alone.
        if (isImport) this.recordImport(deviceId, tenantId);
        else this.#setDue(deviceId, tenantId);
        throw error;
      }
    }
  }

  /** Compacts all devices with many reports or reports of a complete day, and merges complete days. */
  async sweep(): Promise<void> {
    this.#sweepingSince = performance.now();
    try {
      await this.#sweepDevices();
    } finally {
      this.#sweepingSince = null;
    }
  }

  async #sweepDevices(): Promise<void> {
    const { store, shards, clock } = this.#parts;
    const before = dayOf(clock.now() - MAX_DEVICE_SKEW_MS);
    // The others have few and small reports, and are in this sweep if these are of a complete day.
    for (const [deviceId, reports] of this.#reports) {
      const isSmall = reports.bytes < this.#limits.maxBytes / SWEEPS_PER_DAY;
      if (isSmall && !this.#isDue(reports)) this.#reports.delete(deviceId);
    }
    let oldest: EpochMs | null = null;
    for (let after: Uuid | null = NIL_UUID; after !== null && !this.#stopped; ) {
      const { backlogs, next }: { backlogs: HistoryBacklog[]; next: Uuid | null } = await store.history.backlogs(
        ...[after, PAGE, this.#limits.maxRows, shards()],
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
   * whose samples are not merged; for imported days, the day of the import. Reports that are being stored have a time shortly
   * before the current one, and versions are not in the order of times.
   */
  async progress(): Promise<{ compactedBefore: EpochMs; openFrom: DayNumber | null }> {
    const { store, clock } = this.#parts;
    let before = clock.now();
    let earliest: DayNumber | null = null;
    for (let after: Uuid | null = NIL_UUID; after !== null; ) {
      const { backlogs, next }: { backlogs: HistoryBacklog[]; next: Uuid | null } = await store.history.backlogs(
        ...[after, PAGE, 1],
      );
      for (const { oldest, expiresWith } of backlogs) {
        if (oldest !== null) before = Math.min(before, oldest);
        if (expiresWith !== null) earliest = Math.min(earliest ?? expiresWith, expiresWith);
      }
      after = next;
    }
    return { compactedBefore: before - MAX_DEVICE_SKEW_MS, openFrom: earliest };
  }

  #isDue({ count, bytes }: UncompactedReports): boolean {
    return count >= this.#limits.dueReports || bytes >= this.#limits.maxBytes;
  }

  #owns(tenantId: Uuid): boolean {
    const shards = this.#parts.shards();
    return shards === null || shards.includes(shardOf(tenantId));
  }

  /** False if it failed or some reports remain. A device that cannot be compacted does not stop those after it. */
  async #attempt(deviceId: Uuid, compact: () => Promise<boolean>): Promise<boolean> {
    try {
      return await this.#locks.exclusive(deviceId, compact);
    } catch (error) {
      // The next attempt reads what was committed: each step begins with the stored position.
      if (error instanceof StoreUnavailable || error instanceof CommitUnknown) throw error;
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
      await store.history.deleteDevice(deviceId, tenantId, this.#limits.deleteRows, () => this.#stopped);
      return true;
    }
    const isComplete = oldest !== null && oldest < before * DAY_MS + MAX_DEVICE_SKEW_MS;
    const isCompacted =
      !(rows >= this.#limits.maxRows || isComplete) || (await this.#compactReports(deviceId, tenantId));
    if (!isCompacted) return false;
    if (isComplete || (openFrom !== null && openFrom < before)) await this.#merge.mergeDays(deviceId, tenantId, before);
    return true;
  }

  async #compactImport(deviceId: Uuid, tenantId: Uuid): Promise<boolean> {
    if (!(await this.#compactReports(deviceId, tenantId))) return false;
    await this.#merge.mergeDays(deviceId, tenantId, dayOf(this.#parts.clock.now() - MAX_DEVICE_SKEW_MS));
    return true;
  }

  /** False if some reports remain; the device is due in the next minute then. */
  async #compactReports(deviceId: Uuid, tenantId: Uuid): Promise<boolean> {
    const { history } = this.#parts.store;
    const { maxRows, maxBytes, maxSteps } = this.#limits;
    for (let step = 0; step < maxSteps && !this.#stopped; step += 1) {
      const { version, rows } = await history.tail(deviceId, maxRows, maxBytes);
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
      const encoder = new SegmentEncoder(PART_LEVEL);
      for (const { property, day, samples } of collector.series()) {
        segments.push({ property, day, samples: samples.length, body: await encoder.encode(samples) });
        await nextTurn();
      }
      // False if another process has compacted them.
      const isStored = await history.compact({ deviceId, tenantId, from: version, to: last.version, segments });
      if (!isStored) return true;
      this.#dropped.limit += collector.dropped;
      // A tail that ends below both limits has all.
      if (rows.length < maxRows && bytes < maxBytes) return true;
    }
    this.#setDue(deviceId, tenantId);
    return false;
  }

  /** Reports of an import may have come since. */
  #setDue(deviceId: Uuid, tenantId: Uuid, isImport = this.#reports.get(deviceId)?.isImport ?? false): void {
    this.#reports.set(deviceId, { tenantId, count: this.#limits.dueReports, bytes: 0, isImport });
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
