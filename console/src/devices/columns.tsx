import { useMemo } from 'react';
import { Link } from 'wouter';
import type { listHomes } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { Pill } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import type { ListColumn } from '../ui/list-view.ts';
import { Time } from '../ui/time.tsx';
import { deviceHref, deviceNameOf } from './device-name.tsx';
import type { DeviceValues } from './device-values.ts';
import { iconOfDevice, mainValue } from './main-value.ts';
import type { ListedDevice } from './use-all-devices.ts';

const presenceOf = ({ online, revoked }: ListedDevice): string => (revoked ? 'revoked' : online ? 'online' : 'offline');
const presenceTones = { revoked: 'bad', online: 'good', offline: 'quiet' } as const;

/** The columns of the list of devices. */
export function useDeviceColumns(values: ReadonlyMap<string, DeviceValues>): readonly ListColumn<ListedDevice>[] {
  const { data } = useGet<ResponseBody<typeof listHomes>>('/v1/homes?limit=200');
  return useMemo(() => {
    const homes = new Map(data?.homes.map(({ id, home_name }) => [id, home_name]));
    const stateOf = ({ id, device_type }: ListedDevice): string | null => {
      const state = values.get(id)?.state;
      return state === undefined ? null : mainValue(device_type, state);
    };
    const batteryOf = ({ id }: ListedDevice): number | null => values.get(id)?.battery ?? null;
    const roomOf = ({ id }: ListedDevice): string | null => values.get(id)?.room?.name ?? null;
    const homeOf = ({ home_id }: ListedDevice): string | null =>
      home_id === null ? null : (homes.get(home_id) ?? null);
    return [
      {
        ...{ id: 'name', title: 'Device', width: 'minmax(min(13.5rem, 36vw), 1.7fr)', value: deviceNameOf },
        cell: (device) => (
          <span className="device-cell">
            <Icon name={iconOfDevice(device.device_type)} />
            <Link href={deviceHref(device.id)}>{deviceNameOf(device)}</Link>
          </span>
        ),
      },
      {
        ...{ id: 'presence', title: 'Presence', width: 'minmax(6rem, 0.7fr)', value: presenceOf },
        cell: (device) => {
          const presence = presenceOf(device) as keyof typeof presenceTones;
          return <Pill tone={presenceTones[presence]}>{presence}</Pill>;
        },
      },
      {
        ...{ id: 'state', title: 'State', width: 'minmax(9.5rem, 2fr)', hideOnNarrow: true, value: stateOf },
        cell: (device) => <span title={stateOf(device) ?? ''}>{stateOf(device) ?? '—'}</span>,
      },
      {
        ...{ id: 'battery', title: 'Battery', width: '4rem', hideOnNarrow: true, value: batteryOf },
        cell: (device) => {
          const percent = batteryOf(device);
          return percent === null ? '—' : `${Math.round(percent)} %`;
        },
      },
      {
        ...{ id: 'home', title: 'Home', width: 'minmax(4.2rem, 0.9fr)', hideOnNarrow: true, value: homeOf },
        cell: (device) => homeOf(device) ?? '—',
      },
      {
        ...{ id: 'room', title: 'Room', width: 'minmax(4.5rem, 0.9fr)', hideOnNarrow: true, value: roomOf },
        cell: (device) => roomOf(device) ?? '—',
      },
      {
        ...{ id: 'type', title: 'Type', width: 'minmax(7.8rem, 1fr)', hideOnNarrow: true },
        ...{ value: ({ device_type }) => device_type, cell: ({ device_type }) => device_type },
      },
      {
        ...{ id: 'last_seen', title: 'Last seen', width: '6.5rem', hideOnNarrow: true },
        ...{ value: ({ last_seen }) => last_seen, cell: ({ last_seen }) => <Time at={last_seen} /> },
      },
      {
        ...{ id: 'firmware', title: 'Firmware', width: '6rem', hideOnNarrow: true, isOptional: true },
        ...{ value: ({ firmware }) => firmware, cell: ({ firmware }) => firmware ?? '—' },
      },
      {
        ...{ id: 'id', title: 'ID', width: '10rem', hideOnNarrow: true, isOptional: true },
        ...{ value: ({ id }) => id, cell: ({ id }) => <span className="mono small">{id}</span> },
      },
    ];
  }, [data, values]);
}
