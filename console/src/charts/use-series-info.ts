import { useQueries } from '@tanstack/react-query';
import { pathNamesOf, type SampleValue, stateValueAt } from '../../../src/domain/history/sample.ts';
import { unitInName } from '../../../src/domain/units.ts';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { deviceNameOf } from '../devices/device-name.tsx';
import { stateUnits } from '../devices/device-units.ts';
import { type ManifestRecord, manifestPath } from '../devices/manifest.tsx';
import { capital } from '../ui/text-format.ts';
import { valueName } from '../ui/values.tsx';
import type { SeriesId } from './chart-window.ts';

/** The names, unit and current value of a series. */
export interface SeriesInfo {
  deviceName: string;
  /** `Climate temperature`. */
  label: string;
  unit: string | undefined;
  /** The current value; undefined if the device does not report the property now. */
  current: SampleValue | undefined;
}

/** `climate.temperature` → `Climate temperature`; the unit in a name is left out. */
export function propertyLabel(property: string): string {
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
    const names = pathNamesOf(property);
    return {
      deviceName: device === undefined ? '…' : deviceNameOf(device),
      label: propertyLabel(property),
      unit: stateUnits(manifests[index]?.data)(names.join('.')) ?? unitInName(property),
      current: device === undefined ? undefined : stateValueAt(device.state, property),
    };
  });
  return { infos, isLoading: [...devices, ...manifests].some(({ isPending }) => isPending) };
}
