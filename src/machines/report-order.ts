import { hasUnused, type ReplayWindow } from '../domain/replay-window.ts';
import { applyReport, type ReportResult, type Twin } from '../domain/twin.ts';
import type { JsonObject } from '../domain/values.ts';

/**
 * Which report set each property last, kept while the replay window still accepts a number below the highest. It
 * prevents a late report from overwriting properties of a later one. Devices that send in order have none.
 */
export interface ReportOrder {
  /** The highest sequence number of a full report. */
  full: number;
  /** For each property of the state, the sequence number of the report that set it. */
  properties: Readonly<Record<string, number>>;
}

const UNKNOWN: ReportOrder = { full: 0, properties: {} };

/** The order to keep after a sequence number was accepted; null while all reports arrived in order. */
export function orderAfter(order: ReportOrder | null, before: ReplayWindow, after: ReplayWindow): ReportOrder | null {
  if (order === null && after.highest === before.highest + 1) return null;
  return hasUnused(after) ? (order ?? UNKNOWN) : null;
}

/** Adds the properties of report `sequence` to `order`. */
export function recordReport(order: ReportOrder, report: JsonObject, full: boolean, sequence: number): ReportOrder {
  const before = full && sequence > order.full ? propertiesReportedAfter(order, sequence) : order.properties;
  const updated = Object.keys(report).map((name): [string, number] => {
    const earlier = Object.hasOwn(before, name) ? (before[name] ?? 0) : 0;
    return [name, Math.max(earlier, sequence)];
  });
  const properties = Object.fromEntries([...Object.entries(before), ...updated]);
  return { full: full ? Math.max(order.full, sequence) : order.full, properties };
}

/** The twin after a late report: properties set by later reports are kept. */
export function applyLateReport(
  twin: Twin,
  report: JsonObject,
  full: boolean,
  sequence: number,
  order: ReportOrder,
): ReportResult {
  if (order.full > sequence) return applyReport(twin, {});
  const kept = unsupersededPart(report, sequence, order);
  if (!full) return applyReport(twin, kept);
  const later = propertiesReportedAfter(order, sequence);
  const current = Object.entries(twin.state).filter(([name]) => Object.hasOwn(later, name));
  return applyReport(twin, { ...kept, ...Object.fromEntries(current) }, true);
}

/** The properties of a report that no later report set. */
export function unsupersededPart(report: JsonObject, sequence: number, order: ReportOrder): JsonObject {
  if (order.full > sequence) return {};
  const later = propertiesReportedAfter(order, sequence);
  return Object.fromEntries(Object.entries(report).filter(([name]) => !Object.hasOwn(later, name)));
}

const propertiesReportedAfter = ({ properties }: ReportOrder, sequence: number): Record<string, number> =>
  Object.fromEntries(Object.entries(properties).filter(([, reported]) => reported > sequence));
