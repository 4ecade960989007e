import { type SampleValue, stateValueAt, telemetryValueAt } from '../../../src/domain/history/sample.ts';
import type { EpochMs, JsonObject } from '../../../src/domain/values.ts';
import type { SeriesId } from './chart-window.ts';

/** A message of `/ws/state` that has samples. */
export type SampleUpdate =
  | { type: 'report_update'; device_id: string; report: JsonObject; device_timestamp: EpochMs }
  | ({ type: 'telemetry_update'; device_id: string; device_timestamp?: EpochMs; timestamp: EpochMs } & JsonObject);

const isTelemetry = ({ property }: SeriesId): boolean => property.startsWith('$');

/** The kinds of updates that have samples of these series, as the stream names them. */
export const kindsOf = (series: readonly SeriesId[]): string =>
  [...(series.every(isTelemetry) ? [] : ['report']), ...(series.some(isTelemetry) ? ['telemetry'] : [])].join(',');

/**
 * The sample of a series in an update; undefined without one. For telemetry, a service of an earlier version sends only the
 * time of receipt.
 */
export function liveSampleOf(
  update: SampleUpdate,
  { deviceId, property }: SeriesId,
): { at: EpochMs; value: SampleValue } | undefined {
  if (update.device_id !== deviceId) return undefined;
  if (update.type === 'report_update') {
    const value = stateValueAt(update.report, property);
    return value === undefined ? undefined : { at: update.device_timestamp, value };
  }
  const { type: _, device_id: __, timestamp, device_timestamp: at = timestamp, ...telemetry } = update;
  const value = telemetryValueAt(telemetry, property);
  return value === undefined ? undefined : { at, value };
}
