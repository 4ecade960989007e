import { Link } from 'wouter';
import { type SampleValue, stateValueAt, telemetryValueAt } from '../../../src/domain/history/sample.ts';
import { chartHref } from '../charts/chart-window.ts';
import { Note } from '../ui/feedback.tsx';
import { Fact } from '../ui/values.tsx';
import type { DeviceRecord } from './device-name.tsx';

/** The paths of telemetry that the device has reported as numbers, in the history. */
export function telemetryProperties({ battery, telemetry }: DeviceRecord): string[] {
  const { rssi, uptime_s, free_heap } = telemetry ?? {};
  const reported = Object.entries({ rssi, battery, uptime_s, free_heap });
  return reported.flatMap(([name, value]) => (typeof value === 'number' ? [`$telemetry.${name}`] : []));
}

/** The current value of a series: of the state, or of telemetry. */
export const deviceValueAt = (
  { state, battery, telemetry }: Pick<DeviceRecord, 'state' | 'battery' | 'telemetry'>,
  property: string,
): SampleValue | undefined => stateValueAt(state, property) ?? telemetryValueAt({ ...telemetry, battery }, property);

interface ChartLinkProps {
  deviceId: string;
  name: 'rssi' | 'free_heap';
  label: string;
}

const ChartLink = ({ deviceId, name, label }: ChartLinkProps) => (
  <Link className="small" href={chartHref(deviceId, [`$telemetry.${name}`])} aria-label={`Chart of ${label}`}>
    Chart
  </Link>
);

/** Facts that a device reports about itself, and where they differ from its registration. */
export function TelemetryFacts({ device, of }: { device: DeviceRecord; of: NonNullable<DeviceRecord['telemetry']> }) {
  const { rssi, uptime_s, free_heap, device_type, manifest_version, mismatches } = of;
  return (
    <>
      {rssi !== null && (
        <Fact name="Signal">
          <span>{rssi} dBm</span> <ChartLink deviceId={device.id} name="rssi" label="signal" />
        </Fact>
      )}
      {uptime_s !== null && <Fact name="Uptime">{formatUptime(uptime_s)}</Fact>}
      {free_heap !== null && (
        <Fact name="Free memory">
          <span>{formatBytes(free_heap)}</span> <ChartLink deviceId={device.id} name="free_heap" label="free memory" />
        </Fact>
      )}
      {mismatches.length > 0 && (
        <Fact name="Mismatch">
          <Note tone="bad">
            {mismatches.includes('device_type') &&
              `The device reports the type ${device_type}, but is registered as ${device.device_type}. `}
            {mismatches.includes('manifest_version') &&
              `Its firmware was built for version ${manifest_version} of the manifest; the current one is ${device.manifest_version ?? 'none'}.`}
          </Note>
        </Fact>
      )}
    </>
  );
}

/** In the two largest units, such as `3 d 4 h`. */
function formatUptime(seconds: number): string {
  const [days, hours, minutes] = [seconds / 86_400, (seconds / 3_600) % 24, (seconds / 60) % 60].map(Math.floor) as [
    number,
    number,
    number,
  ];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min` : `${Math.floor(seconds)} s`;
}

const formatBytes = (bytes: number): string =>
  bytes < 1024
    ? `${bytes} bytes`
    : bytes < 1024 ** 2
      ? `${Math.round(bytes / 1024)} KiB`
      : `${Math.round(bytes / 1024 ** 2)} MiB`;
