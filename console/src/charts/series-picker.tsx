import { useId, useState } from 'react';
import { forEachLeaf, untimedReport } from '../../../src/domain/history/sample.ts';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { type DeviceRecord, deviceNameOf, useDeviceName } from '../devices/device-name.tsx';
import { type ManifestRecord, manifestPath } from '../devices/manifest.tsx';
import { telemetryProperties } from '../devices/telemetry.tsx';
import { useAllDevices } from '../devices/use-all-devices.ts';
import { MAX_CHARTED_SERIES, type SeriesId, seriesKey } from './chart-window.ts';
import { propertyLabel } from './use-series-info.ts';

interface SeriesPickerProps {
  /** The device that is chosen first. */
  deviceId: string;
  series: readonly SeriesId[];
  add(series: SeriesId): void;
}

/** Adds a property of this or another device to a chart. */
export function SeriesPicker({ deviceId, series, add }: SeriesPickerProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="series-picker" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="button">Add property</summary>
      {isOpen && (
        <PickerFields
          {...{ deviceId, series }}
          add={(one) => {
            setOpen(false);
            add(one);
          }}
        />
      )}
    </details>
  );
}

function PickerFields({ deviceId: first, series, add }: SeriesPickerProps) {
  const [deviceId, setDeviceId] = useState(first);
  const [deviceField, propertyField] = [useId(), useId()];
  const { rows } = useAllDevices();
  const firstName = useDeviceName(first);
  const device = useGet<ResponseBody<typeof getDevice>>(`/v1/devices/${deviceId}`).data?.device;
  const manifest = useGet<ManifestRecord>(manifestPath(deviceId), { enabled: device !== undefined }).data;
  const shown = new Set(series.map(seriesKey));
  const left = (properties: readonly string[]) =>
    properties.filter((property) => !shown.has(seriesKey({ deviceId, property })));
  const properties = left(device === undefined ? [] : stateProperties(device));
  const telemetry = left(device === undefined ? [] : telemetryProperties(device));
  const optionOf = (property: string) => (
    <option key={property} value={property}>
      {propertyLabel(property, manifest)}
    </option>
  );
  const isFull = series.length >= MAX_CHARTED_SERIES;
  return (
    <div className="card series-fields">
      <div>
        <label htmlFor={deviceField}>Device</label>
        <select id={deviceField} value={deviceId} onChange={({ target }) => setDeviceId(target.value)}>
          <option value={first}>{firstName}</option>
          {rows
            .filter(({ id }) => id !== first)
            .map((device) => (
              <option key={device.id} value={device.id}>
                {deviceNameOf(device)}
              </option>
            ))}
        </select>
      </div>
      <div>
        <label htmlFor={propertyField}>Property</label>
        <select
          id={propertyField}
          value=""
          disabled={isFull || properties.length + telemetry.length === 0}
          onChange={({ target }) => add({ deviceId, property: target.value })}
        >
          <option value="">{properties.length + telemetry.length === 0 ? 'None left' : 'Choose a property'}</option>
          {properties.map(optionOf)}
          {telemetry.length > 0 && <optgroup label="Telemetry">{telemetry.map(optionOf)}</optgroup>}
        </select>
      </div>
      {isFull && <p className="quiet small">A chart has at most {MAX_CHARTED_SERIES} properties.</p>}
    </div>
  );
}

function stateProperties({ state }: DeviceRecord): string[] {
  const properties: string[] = [];
  forEachLeaf(untimedReport(state), (property) => properties.push(property));
  return properties;
}
