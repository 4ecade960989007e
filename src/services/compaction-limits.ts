import type { Milliseconds } from '../domain/values.ts';

/** Limits of the compaction of the history of devices. */
export interface CompactionLimits {
  /** Reports of a device since its last compaction from which on it is compacted in the next minute. */
  dueReports: number;
  /**
   * Rows with reports that are compacted at once, and their bytes: parsing them is the longest step between two pauses. A
   * device with so many bytes of reports is compacted in the next minute too.
   */
  maxRows: number;
  maxBytes: number;
  /** Times that up to so many rows of a device are compacted before others are. */
  maxSteps: number;
  /** Bytes of segments that are read at once to merge them, unless one property has more; the result is not larger. */
  mergeBytes: number;
  /** Samples that are merged at once, unless one property has more: it takes about 3 µs for each, however few bytes they have. */
  mergeSamples: number;
  /** Rows of a deleted device that one statement deletes. */
  deleteRows: number;
  /** Longest pause after a batch was merged; a pause lasts as long as its batch took. Requests are answered in it. */
  maxPauseMs: Milliseconds;
}

/** 32,000 rows or 64 MB of a device before others. */
export const defaultCompactionLimits: CompactionLimits = {
  dueReports: 500,
  maxRows: 500,
  maxBytes: 1024 * 1024,
  maxSteps: 64,
  mergeBytes: 2 * 1024 * 1024,
  mergeSamples: 100_000,
  deleteRows: 1_000,
  maxPauseMs: 100,
};
