import { useId } from 'react';
import type { listRooms } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';

/**
 * The rooms of a home as the field `room`. `chosen` is selected at first. Until the rooms are loaded, the form can
 * already be sent with it. The field stays if there are no rooms, so that nothing moves under the pointer.
 */
export function RoomField({ home, chosen = null }: { home: string; chosen?: string | null }) {
  const { data } = useGet<ResponseBody<typeof listRooms>>(`/v1/homes/${home}/rooms?limit=200`);
  const id = useId();
  const label = <label htmlFor={id}>Room (optional)</label>;
  if (data === undefined) {
    return (
      <>
        {label}
        <select id={id} name="room">
          <option value={chosen ?? ''}>Loading rooms …</option>
        </select>
      </>
    );
  }
  const isListed = chosen === null || data.rooms.some((room) => room.id === chosen);
  return (
    <>
      {label}
      <select key="rooms" id={id} name="room" defaultValue={chosen ?? ''}>
        <option value="">no room</option>
        {!isListed && <option value={chosen}>its present room</option>}
        {data.rooms.map((room) => (
          <option key={room.id} value={room.id}>
            {room.name}
          </option>
        ))}
      </select>
    </>
  );
}
