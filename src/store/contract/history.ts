import type { RollupStep } from '../../domain/history/rollup.ts';
import type { OwnedShards } from '../../domain/shards.ts';
import type { EpochMs, Milliseconds, Uuid } from '../../domain/values.ts';

/** A day as its number since 1970, in UTC. */
export type DayNumber = number;

/** The reports of one commit that are not compacted yet: JSON text of a list of `StoredReport`. */
export interface ReportRow {
  version: number;
  text: string;
}

/** What a device has to compact. */
export interface HistoryBacklog {
  deviceId: Uuid;
  tenantId: Uuid;
  /** The device was deleted, and its history was not yet. */
  deleted: boolean;
  /** Number of rows with reports, up to `maxRows`. */
  rows: number;
  /** When the oldest of them was received; null without one. */
  oldest: EpochMs | null;
  /** The earliest day whose segments are not merged; null if all are. */
  openFrom: DayNumber | null;
  /** The day with whose samples those of `openFrom` expire: that of the import for a day before the registration. */
  expiresWith: DayNumber | null;
}

/** The oldest reports of a device that are not compacted. */
export interface ReportTail {
  /** The version up to which reports are compacted. */
  version: number;
  rows: ReportRow[];
}

/** The number of stored samples of a property and day; 0 if only roll-ups are left. */
export type SampleCount = Pick<SegmentRow, 'property' | 'day' | 'samples'>;

/** A segment: encoded samples of one property and day. */
export interface SegmentRow {
  property: string;
  day: DayNumber;
  samples: number;
  body: Uint8Array;
}

/** Segments of reports, and the position after them. */
export interface Compaction {
  deviceId: Uuid;
  tenantId: Uuid;
  /** The position that the reports were read at. */
  from: number;
  to: number;
  segments: readonly SegmentRow[];
}

/** A property of a day whose segments are not merged, and the version up to which they have its samples. */
export interface OpenSeries {
  property: string;
  day: DayNumber;
  part: number;
  /** The version up to which its roll-ups have the samples; null without roll-ups. */
  mergedPart: number | null;
  /** Bytes of its segments, and the samples in them. */
  bytes: number;
  samples: number;
}

/** What a device has to merge, and the version up to which its reports are compacted. */
export interface OpenDays {
  version: number;
  /** By day and property. */
  series: OpenSeries[];
}

/** Encoded samples of a day, which has those up to the version `part`. */
export interface StoredSegment {
  day: DayNumber;
  part: number;
  body: Uint8Array;
}

/** A segment of one of several properties. */
export interface PropertySegment extends StoredSegment {
  property: string;
}

/** All samples of a property and day as one segment, with its roll-ups. */
export interface MergedSeries extends PropertySegment {
  samples: number;
  rollups: Readonly<Record<RollupStep, Uint8Array>>;
}

/** Samples of a day whose merged segment has expired. */
export interface LateSamples extends Omit<OpenSeries, 'bytes' | 'samples'> {
  deviceId: Uuid;
  tenantId: Uuid;
}

export interface SeriesRange {
  from: DayNumber;
  to: DayNumber;
  /** Without what was reported for earlier days. */
  withoutEarlier?: true;
}

/** A property of a device. */
export interface SeriesKey {
  deviceId: Uuid;
  property: string;
}

/** The stored history of a property as of one moment. */
export interface SeriesRows {
  /** One for each day, in their order: roll-ups, or all samples of merged days if no step was requested. */
  days: StoredSegment[];
  /** The daily roll-up of the last day before the range. */
  before: StoredSegment | null;
  /** Samples that are not merged, up to the last day of the range. */
  parts: StoredSegment[];
  /** Reports that are not compacted. */
  tail: ReportRow[];
  /**
   * False if the devices that were read have more than `MAX_TAIL_BYTES` of such reports, or several series more than
   * `MAX_SERIES_BYTES`; the lists are incomplete then.
   */
  complete: boolean;
}

/** Reports that are not compacted, of the devices of one read: so many are read at most. */
export const MAX_TAIL_BYTES = 8 * 1024 * 1024;

/** Compressed segments or roll-ups of one read of several series. A single series is bounded by its days. */
export const MAX_SERIES_BYTES = 16 * 1024 * 1024;

/** The time of a sample and that of its receipt differ by less: the clocks of device, service and database together. */
export const MAX_DEVICE_SKEW_MS: Milliseconds = 600_000;

/** The current day, and the first ones of which samples and roll-ups are retained. */
export interface HistoryDays {
  today: DayNumber;
  samplesFrom: DayNumber;
  rollupsFrom: DayNumber;
}

/** History of devices: reports, their compaction, and series. See docs/decisions/0067. */
export interface HistoryStore {
  /** The devices after `after` by id that have something to compact, merge or delete; the last ones if `next` is null. */
  backlogs(
    after: Uuid,
    limit: number,
    maxRows: number,
    shards?: OwnedShards,
  ): Promise<{ backlogs: HistoryBacklog[]; next: Uuid | null }>;
  /** At least one row, and otherwise at most `maxRows` with `maxBytes`. */
  tail(deviceId: Uuid, maxRows: number, maxBytes: number): Promise<ReportTail>;
  /** The samples that days have, merged and not. */
  sampleCounts(deviceId: Uuid, days: readonly DayNumber[]): Promise<SampleCount[]>;
  /** False, and nothing is stored, if the position of the device is no longer `from`, or its shard has another owner. */
  compact(compaction: Compaction): Promise<boolean>;
  /** The series of days before `before` that are not merged. */
  openSeries(deviceId: Uuid, before: DayNumber): Promise<OpenDays>;
  /** The segments of properties on a day, without those that a merged one contains. */
  segments(tenantId: Uuid, deviceId: Uuid, day: DayNumber, properties: readonly string[]): Promise<PropertySegment[]>;
  /**
   * Replaces the segments and the roll-ups of their days, unless those stored have samples of a later version. False, and
   * nothing is stored, if the shard has another owner.
   */
  merge(deviceId: Uuid, tenantId: Uuid, merged: readonly MergedSeries[]): Promise<boolean>;
  /**
   * The roll-ups stay as they are, and the samples up to `part` are no longer read. False, and nothing is changed, if the
   * day has a merged segment or other roll-ups than those up to `mergedPart`.
   */
  discardLate(late: LateSamples): Promise<boolean>;
  /** All days before `before` are merged; without effect if the position has moved since `version`. */
  closeDays(deviceId: Uuid, tenantId: Uuid, version: number, before: DayNumber): Promise<void>;
  /**
   * Deletes everything of a deleted device, up to `batch` rows in a statement. The rest remains if the shard moves, or if
   * `isStopped` before a statement.
   */
  deleteDevice(deviceId: Uuid, tenantId: Uuid, batch: number, isStopped: () => boolean): Promise<void>;
  /** Number of compacted samples of properties of a device, on days of the range. */
  samplesOf(tenantId: Uuid, deviceId: Uuid, properties: readonly string[], range: SeriesRange): Promise<number>;
  /**
   * The series in the order of `keys`, as of one moment; the reports of a device are the same list in all of its series. Null
   * as `step`: samples.
   */
  series(
    tenantId: Uuid,
    keys: readonly SeriesKey[],
    range: SeriesRange,
    step: RollupStep | null,
  ): Promise<SeriesRows[]>;
  /** Makes the partitions of the next days, and returns how many. Throws if a table is in use; call again later. */
  makePartitions(today: DayNumber): Promise<number>;
  /**
   * Drops the partitions with expired samples and roll-ups, and those with reports that were received before
   * `compactedBefore` unless one of them is not compacted after all. Returns how many. Throws if a table is in use; call
   * again later.
   */
  dropPartitions(days: HistoryDays, compactedBefore: EpochMs): Promise<number>;
}
