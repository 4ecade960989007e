import { hasUnused, type ReplayWindow } from '../domain/replay-window.ts';
import { applyReport, type ReportResult, type Twin } from '../domain/twin.ts';
import type { JsonObject } from '../domain/values.ts';

/**
 * Which report said what last, kept while the replay window still takes a lower number than one that was accepted. So a report
 * that arrives late does not overwrite what a later one said. Devices that send in order have none.
 */
export interface ReportOrder {
  /** The highest number of a full report. */
  full: number;
  /** By property of the state, the number of the report that said it. */
  properties: Readonly<Record<string, number>>;
}

const UNKNOWN: ReportOrder = { full: 0, properties: {} };

/** The order to keep after a number was accepted: null as long as all came in order. */
export function orderAfter(order: ReportOrder | null, before: ReplayWindow, after: ReplayWindow): ReportOrder | null {
  if (order === null && after.highest === before.highest + 1) return null;
  return hasUnused(after) ? (order ?? UNKNOWN) : null;
}

/** `order` with what the report `sequence` said. */
export function recordReport(order: ReportOrder, report: JsonObject, full: boolean, sequence: number): ReportOrder {
  const before = full && sequence > order.full ? propertiesReportedAfter(order, sequence) : order.properties;
  const said = Object.keys(report).map((name): [string, number] => {
    const earlier = Object.hasOwn(before, name) ? (before[name] ?? 0) : 0;
    return [name, Math.max(earlier, sequence)];
  });
  const properties = Object.fromEntries([...Object.entries(before), ...said]);
  return { full: full ? Math.max(order.full, sequence) : order.full, properties };
}

/** The twin after a report that arrives after a later one: what that said stands. */
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
  const said = Object.entries(twin.state).filter(([name]) => Object.hasOwn(later, name));
  return applyReport(twin, { ...kept, ...Object.fromEntries(said) }, true);
}

/** The properties of a report that no later one said. */
export function unsupersededPart(report: JsonObject, sequence: number, order: ReportOrder): JsonObject {
  if (order.full > sequence) return {};
  const later = propertiesReportedAfter(order, sequence);
  return Object.fromEntries(Object.entries(report).filter(([name]) => !Object.hasOwn(later, name)));
}

const propertiesReportedAfter = ({ properties }: ReportOrder, sequence: number): Record<string, number> =>
  Object.fromEntries(Object.entries(properties).filter(([, said]) => said > sequence));
