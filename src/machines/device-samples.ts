import { DAY_MS, dayOf } from '../domain/day.ts';
import {
  type HistoryRule,
  type KeptValues,
  keptPart,
  NOTHING_KEPT,
  type ReportPosition,
} from '../domain/history/rules.ts';
import { forEachLeaf, IMPORTED_SEQUENCE, untimedReport } from '../domain/history/sample.ts';
import { type JsonSpan, spanLength } from '../domain/json/span.ts';
import type { EpochMs, JsonObject, Milliseconds } from '../domain/values.ts';
import type { DeviceContext, DeviceSamples, ImportedReport } from './device-types.ts';
import type { Output, SamplesOutput } from './outputs.ts';

// The samples that a device's reports and its telemetry leave in its history (docs/decisions/0067 and 0071).

/** Telemetry of so many heartbeats waits for a commit, and for so long. */
const MAX_PENDING = 10;
const MAX_PENDING_MS: Milliseconds = 600_000;

/** The times and the place in the order of a message. */
interface Reported {
  at: EpochMs;
  /** `at` for an unsigned message. */
  deviceAt: EpochMs;
  sequence: number;
  position: ReportPosition;
  /** Bytes of reports that the device may store a day. */
  limit: number | undefined;
}

interface Sampled {
  samples: DeviceSamples;
  outputs: readonly Output[];
}

const NO_OUTPUTS: readonly Output[] = [];

/** Stores the telemetry that waits, and a report of the state. `written`: its JSON text. */
export function sampleReport(
  { fixed: { history }, live: { samples } }: DeviceContext,
  report: JsonObject,
  written: JsonSpan | undefined,
  reported: Reported,
): Sampled {
  const stored = storePending(samples, reported);
  const { part, kept } = partOf(report, history, stored.samples, reported, 'state');
  if (isEmpty(part)) return stored;
  const text = part === report && written !== undefined ? written : JSON.stringify(part);
  const own = store(stored.samples, { ...reported, part, text, isTelemetry: false });
  return {
    // Values are compared with stored ones only.
    samples: own.isStored && kept !== own.samples.kept ? { ...own.samples, kept } : own.samples,
    outputs: [...stored.outputs, own.output],
  };
}

/** Keeps telemetry for the next commit, or with `isCommitted`, or if much of it waits, stores it now. */
export function sampleTelemetry(
  { fixed: { history }, live: { samples } }: DeviceContext,
  telemetry: JsonObject,
  reported: Reported,
  isCommitted: boolean,
): Sampled {
  const { part, kept } = partOf(telemetry, history, samples, reported, 'telemetry');
  if (isEmpty(part)) return { samples: kept === samples.kept ? samples : { ...samples, kept }, outputs: NO_OUTPUTS };
  const { at, deviceAt, sequence } = reported;
  const pending = [...samples.pending, [at, deviceAt, sequence, part] as const];
  const since = pending[0]?.[0] ?? at;
  const waiting = { ...samples, kept, pending };
  return isCommitted || pending.length >= MAX_PENDING || at - since >= MAX_PENDING_MS
    ? storePending(waiting, reported)
    : { samples: waiting, outputs: NO_OUTPUTS };
}

/** Stores the telemetry that waits, in a commit that something else causes. */
export function storePending(samples: DeviceSamples, { limit }: Pick<Reported, 'limit'>): Sampled {
  if (samples.pending.length === 0) return { samples, outputs: NO_OUTPUTS };
  let after: DeviceSamples = { ...samples, pending: [] };
  const outputs: Output[] = [];
  for (const [at, deviceAt, sequence, part] of samples.pending) {
    const text = JSON.stringify(part);
    const stored = store(after, { at, deviceAt, sequence, limit, part, text, isTelemetry: true });
    after = stored.isStored ? stored.samples : { ...stored.samples, kept: keptWithout(after.kept, part) };
    outputs.push(stored.output);
  }
  return { samples: after, outputs };
}

/** Without the values of telemetry that was compared when it began to wait, and was not stored. */
function keptWithout(kept: KeptValues, telemetry: JsonObject): KeptValues {
  if (kept.size === 0) return kept;
  const remaining = new Map(kept);
  forEachLeaf([0, 0, 0, {}, telemetry], (property) => remaining.delete(property));
  return remaining;
}

/**
 * Reports from before the registration. As of late reports, only what the rules leave out at all is not stored. The bytes of
 * the day limit what the device sends.
 */
export const importedSamples = (
  { fixed: { history } }: DeviceContext,
  at: EpochMs,
  reports: readonly ImportedReport[],
): Output[] =>
  reports.flatMap(({ deviceAt, state }) => {
    const part = history === undefined ? state : keptPart(state, history, NOTHING_KEPT, 'late').part;
    if (isEmpty(part)) return [];
    const text = JSON.stringify(part);
    return [samplesOf({ at, deviceAt, sequence: IMPORTED_SEQUENCE, text, isTelemetry: false })];
  });

/** When reports are stored again; null if they are now. */
export const pausedUntil = ({ day, isFull }: DeviceSamples, now: EpochMs): EpochMs | null =>
  isFull && countedDay(day, now) === day ? (day + 1) * DAY_MS : null;

/**
 * The day that the bytes of a report count towards. A clock that is put back to the day before does not start that day again;
 * one that is put back further was ahead, and the day of the last report is still to come.
 */
const countedDay = (last: number, at: EpochMs): number => (dayOf(at) === last - 1 ? last : dayOf(at));

function partOf(
  given: JsonObject,
  rules: readonly HistoryRule[] | undefined,
  { kept }: DeviceSamples,
  { position }: Reported,
  from: 'state' | 'telemetry',
) {
  return rules === undefined ? { part: given, kept } : keptPart(given, rules, kept, position, from);
}

interface StoredPart extends Omit<Reported, 'position'> {
  part: JsonObject;
  text: string | JsonSpan;
  isTelemetry: boolean;
}

/** Counts the bytes of the day. After the first report beyond the limit no later one of the day is stored. */
function store(
  samples: DeviceSamples,
  { at, deviceAt, sequence, limit = Number.POSITIVE_INFINITY, part, text, isTelemetry }: StoredPart,
): { samples: DeviceSamples; output: Output; isStored: boolean } {
  const day = countedDay(samples.day, at);
  const isSameDay = day === samples.day;
  const used = isSameDay ? samples.bytes : 0;
  const size = typeof text === 'string' ? Buffer.byteLength(text) : spanLength(text);
  if ((isSameDay && samples.isFull) || used + size > limit) {
    const output: Output = { type: 'samples.dropped', samples: countLeaves(part) };
    return { samples: { ...samples, day, bytes: used, isFull: true }, output, isStored: false };
  }
  const output = samplesOf({ at, deviceAt, sequence, text, isTelemetry });
  return { samples: { ...samples, day, bytes: used + size, isFull: false }, output, isStored: true };
}

const samplesOf = (stored: Omit<SamplesOutput, 'type'>): SamplesOutput => ({ type: 'samples.put', ...stored });

function countLeaves(part: JsonObject): number {
  let count = 0;
  forEachLeaf(untimedReport(part), () => {
    count += 1;
  });
  return count;
}

function isEmpty(part: JsonObject): boolean {
  for (const _ in part) return false;
  return true;
}
