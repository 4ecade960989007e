import { useId, useState } from 'react';
import type { listHomes } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { Note } from '../ui/feedback.tsx';
import { FormDialog, textIn } from '../ui/form-dialog.tsx';
import { type DeviceRecord, deviceNameOf } from './device-name.tsx';
import { RoomField } from './room-field.tsx';

interface MoveDeviceProps {
  device: DeviceRecord;
  stalePaths: readonly string[];
  onClose(): void;
}

/** Dialog that puts a device into another home or room. */
export function MoveDevice({ device, stalePaths, onClose }: MoveDeviceProps) {
  const [home, setHome] = useState(device.home_id ?? '');
  return (
    <FormDialog
      title={`Move ${deviceNameOf(device)}`}
      submitLabel="Move"
      stalePaths={stalePaths}
      onClose={onClose}
      changeOf={(given) => {
        const room = textIn(given, 'room');
        const body = { home_id: home, room_id: room === '' ? null : room };
        return { method: 'PATCH', path: `/v1/devices/${device.id}`, body };
      }}
    >
      <PlaceFields home={home} onHome={setHome} room={home === device.home_id ? device.room_id : null} />
    </FormDialog>
  );
}

interface PlaceFieldsProps {
  /** Empty until one is chosen. */
  home: string;
  onHome(home: string): void;
  /** Chosen at first. */
  room: string | null;
}

/** The fields “Home” and “Room”, which is named `room` in the form. */
export function PlaceFields({ home, onHome, room }: PlaceFieldsProps) {
  const homes = useGet<ResponseBody<typeof listHomes>>('/v1/homes?limit=200');
  const homeId = useId();
  if (homes.data?.homes.length === 0) return <Note tone="info">Add a home on the page Homes first.</Note>;
  return (
    <>
      <label htmlFor={homeId}>Home</label>
      <select id={homeId} value={home} required onChange={({ target }) => onHome(target.value)}>
        <option value="" disabled>
          Choose a home
        </option>
        {homes.data?.homes.map(({ id, home_name }) => (
          <option key={id} value={id}>
            {home_name}
          </option>
        ))}
      </select>
      {home !== '' && <RoomField key={home} home={home} chosen={room} />}
    </>
  );
}
