import { type SampleValue, sampleValueAt, seriesPathOf, untimedReport } from '../domain/history/sample.ts';
import type { JsonObject } from '../domain/values.ts';
import type { CliContext } from './cli-context.ts';
import { UsageError } from './errors.ts';
import type { HistorySample } from './history-reading.ts';
import { consumeStream } from './stream-consumption.ts';
import { formatTimeOfDay } from './time-text.ts';
import { type LiveUpdate, openStateStream } from './update-stream.ts';

interface Followed {
  deviceId: string;
  /** As the user wrote it. */
  device: string;
  property: string;
  count: number | undefined;
}

/** A `report_update` of `/ws/state`. */
interface ReportUpdate extends LiveUpdate {
  report: JsonObject;
  device_timestamp: number;
  sequence_number: number;
  timestamp: number;
}

/**
 * Prints each new sample of the property until Ctrl-C, or `count` samples; with `--json` in the form of a sample of the
 * history, one a line.
 */
export async function followReports(
  client: CliContext,
  { deviceId, device, property, count }: Followed,
): Promise<void> {
  const { io, api, show } = client;
  const path = seriesPathOf(property);
  if (path?.from !== 'state') throw new UsageError('--follow needs a property of the state');
  const valueIn = (update: LiveUpdate) => sampleValueAt(untimedReport((update as ReportUpdate).report), path);
  await consumeStream(
    io,
    `${property} of ${device}`,
    // Reports without the property are not counted.
    (onUpdate) =>
      openStateStream(api, { events: ['report'], devices: [deviceId] }, (update) => {
        if (valueIn(update) !== undefined) onUpdate(update);
      }),
    (update) => {
      const sample = sampleOf(update as ReportUpdate, valueIn(update) as SampleValue);
      show(sample, ({ at, value }) => io.out(`${io.outColors.dim(formatTimeOfDay(io, Date.parse(at)))} ${value}`));
    },
    count,
  );
}

const sampleOf = (
  { device_timestamp, sequence_number, timestamp }: ReportUpdate,
  value: SampleValue,
): HistorySample => ({
  ...{ at: new Date(device_timestamp).toISOString(), value },
  ...{ received_at: new Date(timestamp).toISOString(), sequence_number },
});
