import { lazy, Suspense, useId } from 'react';
import { MAX_TILE_SERIES, type TileRange, tileRanges } from '../../../src/domain/dashboard-grid.ts';
import { forEachLeaf, untimedReport } from '../../../src/domain/history/sample.ts';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { listHomes, listRooms } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { propertyLabel } from '../charts/use-series-info.ts';
import { ActionOptions } from '../commands/action-options.tsx';
import type { FormChecks } from '../commands/param-fields.tsx';
import { deviceNameOf } from '../devices/device-name.tsx';
import { type ManifestRecord, manifestPath, paramNames } from '../devices/manifest.tsx';
import { telemetryProperties } from '../devices/telemetry.tsx';
import { useAllDevices } from '../devices/use-all-devices.ts';
import { Loading } from '../ui/feedback.tsx';
import { abbreviateId } from '../ui/text-format.ts';
import type { Tile, TileKind } from './dashboard-types.ts';

// The form library is loaded on demand.
const ParamFields = lazy(async () => ({ default: (await import('../commands/param-fields.tsx')).ParamFields }));

/** The values of the fields of all kinds; those of other kinds than the chosen one are ignored. */
export interface TileSettings {
  deviceId: string;
  property: string;
  series: readonly { device_id: string; property: string }[];
  range: TileRange;
  homeId: string;
  roomId: string;
  action: string;
  params: JsonObject;
  text: string;
}

export function settingsOf(tile: Tile | null): TileSettings {
  const given: Partial<Record<string, unknown>> = tile ?? {};
  const textOf = (name: string): string => (typeof given[name] === 'string' ? given[name] : '');
  return {
    ...{ deviceId: textOf('device_id'), property: textOf('property'), action: textOf('action'), text: textOf('text') },
    ...{ homeId: textOf('home_id'), roomId: textOf('room_id') },
    series: tile?.kind === 'chart' ? tile.series : [],
    range: tile?.kind === 'chart' ? tile.range : 'day',
    params: tile?.kind === 'command' ? (tile.params ?? {}) : {},
  };
}

interface TileFieldsProps {
  kind: TileKind;
  settings: TileSettings;
  /** Fields that have a check add it here. */
  checks: FormChecks;
  onChange(change: Partial<TileSettings>): void;
}

/** The fields of a kind of tile. */
export function TileFields({ kind, settings, checks, onChange }: TileFieldsProps) {
  switch (kind) {
    case 'value':
    case 'sparkline':
      return <PropertyFields settings={settings} onChange={onChange} />;
    case 'chart':
      return <ChartFields settings={settings} onChange={onChange} />;
    case 'room':
      return <RoomFields settings={settings} onChange={onChange} />;
    case 'command':
      return <CommandFields settings={settings} checks={checks} onChange={onChange} />;
    case 'text':
      return <TextField settings={settings} onChange={onChange} />;
    case 'confirmations':
      return null;
  }
}

type FieldProps = Omit<TileFieldsProps, 'kind' | 'checks'>;

interface SelectProps {
  label: string;
  value: string;
  options: readonly { value: string; text: string }[];
  onChange(value: string): void;
}

function Select({ label, value, options, onChange }: SelectProps) {
  const id = useId();
  // The stored choice may have been deleted.
  const isKnown = value === '' || options.some((one) => one.value === value);
  return (
    <>
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={({ target }) => onChange(target.value)}>
        <option value="">Choose …</option>
        {!isKnown && <option value={value}>{value.length > 20 ? abbreviateId(value) : value}</option>}
        {options.map((one) => (
          <option key={one.value} value={one.value}>
            {one.text}
          </option>
        ))}
      </select>
    </>
  );
}

function DeviceField({ settings: { deviceId }, onChange }: FieldProps) {
  const { rows } = useAllDevices();
  return (
    <Select
      label="Device"
      value={deviceId}
      options={rows.map((device) => ({ value: device.id, text: deviceNameOf(device) }))}
      onChange={(value) => onChange({ deviceId: value, property: '', action: '', params: {} })}
    />
  );
}

function PropertyFields({ settings, onChange }: FieldProps) {
  const { deviceId, property } = settings;
  const { data } = useGet<ResponseBody<typeof getDevice>>(`/v1/devices/${deviceId}`, { enabled: deviceId !== '' });
  const options: SelectProps['options'][number][] = [];
  if (data !== undefined) {
    forEachLeaf(untimedReport(data.device.state), (value) => options.push({ value, text: value }));
    for (const value of telemetryProperties(data.device))
      options.push({ value, text: `${propertyLabel(value)} (telemetry)` });
  }
  return (
    <>
      <DeviceField settings={settings} onChange={onChange} />
      <Select label="Property" value={property} options={options} onChange={(value) => onChange({ property: value })} />
      {deviceId !== '' && data !== undefined && options.length === 0 && (
        <p className="quiet small">The device has not reported a value yet.</p>
      )}
    </>
  );
}

const rangeTexts: Readonly<Record<TileRange, string>> = {
  hour: 'Last hour',
  six_hours: 'Last 6 hours',
  day: 'Last 24 hours',
  week: 'Last 7 days',
  month: 'Last 30 days',
};

function ChartFields({ settings, onChange }: FieldProps) {
  const { deviceId, property, series, range } = settings;
  const { rows } = useAllDevices();
  const nameOf = (id: string): string => {
    const found = rows.find((device) => device.id === id);
    return found === undefined ? abbreviateId(id) : deviceNameOf(found);
  };
  return (
    <>
      <ul aria-label="Lines" className="tile-series">
        {series.map((one, index) => (
          <li key={`${one.device_id} ${one.property}`}>
            {nameOf(one.device_id)}: {one.property}{' '}
            <button
              type="button"
              className="button"
              onClick={() => onChange({ series: series.filter((_, other) => other !== index) })}
            >
              Remove
            </button>
          </li>
        ))}
      </ul>
      {series.length < MAX_TILE_SERIES && (
        <>
          <PropertyFields settings={settings} onChange={onChange} />
          <button
            type="button"
            className="button"
            disabled={deviceId === '' || property === ''}
            onClick={() => onChange({ series: [...series, { device_id: deviceId, property }], property: '' })}
          >
            Add another line
          </button>
        </>
      )}
      <Select
        label="Time"
        value={range}
        options={tileRanges.map((value) => ({ value, text: rangeTexts[value] }))}
        onChange={(value) => value !== '' && onChange({ range: value as TileRange })}
      />
    </>
  );
}

function RoomFields({ settings: { homeId, roomId }, onChange }: FieldProps) {
  const homes = useGet<ResponseBody<typeof listHomes>>('/v1/homes?limit=200');
  const rooms = useGet<ResponseBody<typeof listRooms>>(`/v1/homes/${homeId}/rooms?limit=200`, {
    enabled: homeId !== '',
  });
  return (
    <>
      <Select
        label="Home"
        value={homeId}
        options={(homes.data?.homes ?? []).map(({ id, home_name }) => ({ value: id, text: home_name }))}
        onChange={(value) => onChange({ homeId: value, roomId: '' })}
      />
      <Select
        label="Room"
        value={roomId}
        options={(rooms.data?.rooms ?? []).map(({ id, name }) => ({ value: id, text: name }))}
        onChange={(value) => onChange({ roomId: value })}
      />
    </>
  );
}

function CommandFields({ settings, checks, onChange }: Omit<TileFieldsProps, 'kind'>) {
  const { deviceId, action, params } = settings;
  const device = useGet<ResponseBody<typeof getDevice>>(`/v1/devices/${deviceId}`, { enabled: deviceId !== '' });
  const { data } = useGet<ManifestRecord>(manifestPath(deviceId), { enabled: deviceId !== '' });
  const actionId = useId();
  const offered = data?.capabilities.filter(({ safetyClass }) => safetyClass !== 'RESTRICTED') ?? [];
  const capability = offered.find((one) => one.action === action);
  return (
    <>
      <DeviceField settings={settings} onChange={onChange} />
      <label htmlFor={actionId}>Action</label>
      <select id={actionId} value={action} onChange={({ target }) => onChange({ action: target.value, params: {} })}>
        <option value="">Choose …</option>
        {action !== '' && capability === undefined && <option value={action}>{action}</option>}
        <ActionOptions of={offered} />
      </select>
      {capability !== undefined && device.data !== undefined && paramNames(capability).length > 0 && (
        <>
          <p className="quiet small">
            The button opens a form for the required parameters that you leave empty and for secret ones. The values
            that you set here are visible to all users of the dashboard.
          </p>
          <Suspense fallback={<Loading what="Loading form" />}>
            <ParamFields
              key={capability.action}
              isOpen
              capability={capability}
              device={device.data.device}
              params={params}
              checks={checks}
              onChange={(changed) => onChange({ params: changed })}
            />
          </Suspense>
        </>
      )}
    </>
  );
}

function TextField({ settings: { text }, onChange }: FieldProps) {
  const id = useId();
  return (
    <>
      <label htmlFor={id}>Text</label>
      <textarea
        id={id}
        rows={5}
        maxLength={4_000}
        value={text}
        onChange={({ target }) => onChange({ text: target.value })}
      />
      <p className="quiet small">
        # begins a heading, - begins a list entry, and ** and * enclose bold and italic text.
      </p>
    </>
  );
}
