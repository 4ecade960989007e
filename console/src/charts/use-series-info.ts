import { useQueries } from '@tanstack/react-query';
import { pathNamesOf, type SampleValue } from '../../../src/domain/history/sample.ts';
import { propertyUnits, seriesUnit } from '../../../src/domain/units.ts';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { deviceNameOf } from '../devices/device-name.tsx';
import { isSteppedIn } from '../devices/device-units.ts';
import { type ManifestRecord, manifestPath } from '../devices/manifest.tsx';
import { deviceValueAt } from '../devices/telemetry.tsx';
import { capital } from '../ui/text-format.ts';
import { valueName } from '../ui/values.tsx';
import type { SeriesId } from './chart-window.ts';

/** The names, unit and current value of a series. */
export interface SeriesInfo {
  deviceName: string;
  /** As of `propertyLabel`. */
  label: string;
  unit: string | undefined;
  /** Whether its numbers last until the next one. */
  isStepped: boolean;
  /** The current value; undefined if the device does not report the property now. */
  current: SampleValue | undefined;
}

/** Names of telemetry, as on the page of a device. */
const telemetryLabels: ReadonlyMap<string, string> = new Map([
  ['$telemetry.rssi', 'Signal'],
  ['$telemetry.battery', 'Battery'],
  ['$telemetry.uptime_s', 'Uptime'],
  ['$telemetry.free_heap', 'Free memory'],
]);

/**
 * The label of the manifest, or the path as words: `climate.temperature` → `Climate temperature`; the unit in a name is left
 * out.
 */
export function propertyLabel(property: string, manifest?: Pick<ManifestRecord, 'properties'>): string {
  const known = manifest?.properties?.[property]?.label ?? telemetryLabels.get(property);
  if (known !== undefined) return known;
  const names = pathNamesOf(property);
  return capital([...names.slice(0, -1), names.at(-1) ?? ''].map(valueName).join(' '));
}

/** Names, units and current values of series, with one request for each device and its manifest. */
export function useSeriesInfo(series: readonly SeriesId[]): { infos: readonly SeriesInfo[]; isLoading: boolean } {
  const deviceIds = [...new Set(series.map(({ deviceId }) => deviceId))];
  const devices = useQueries({
    queries: deviceIds.map((id) => {
      const path = `/v1/devices/${id}`;
      return { queryKey: [path], queryFn: () => requestJson<ResponseBody<typeof getDevice>>('GET', path) };
    }),
  });
  const manifests = useQueries({
    queries: deviceIds.map((id) => {
      const path = manifestPath(id);
      return { queryKey: [path], queryFn: () => requestJson<ManifestRecord>('GET', path) };
    }),
  });
  const infos = series.map(({ deviceId, property }) => {
    const index = deviceIds.indexOf(deviceId);
    const device = devices[index]?.data?.device;
    const manifest = manifests[index]?.data;
    return {
      deviceName: device === undefined ? '…' : deviceNameOf(device),
      label: propertyLabel(property, manifest),
      unit: seriesUnit(property, propertyUnits(manifest?.capabilities ?? [], manifest?.properties)),
      isStepped: isSteppedIn(manifest)(property),
      current: device === undefined ? undefined : deviceValueAt(device, property),
    };
  });
  return { infos, isLoading: [...devices, ...manifests].some(({ isPending }) => isPending) };
}
