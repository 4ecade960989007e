import { useId } from 'react';
import type { listRooms } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';

/** The rooms of a home, if it has any, as the field `room`. `chosen` is selected at first. */
export function RoomField({ home, chosen = null }: { home: string; chosen?: string | null }) {
  const { data } = useGet<ResponseBody<typeof listRooms>>(`/v1/homes/${home}/rooms?limit=200`);
  const id = useId();
  if (data === undefined) {
    // Required, so that the form cannot be sent without the device's room.
    return (
      <>
        <label htmlFor={id}>Room</label>
        <select id={id} name="room" required>
          <option value="">Loading rooms …</option>
        </select>
      </>
    );
  }
  if (data.rooms.length === 0) return null;
  const isListed = chosen === null || data.rooms.some((room) => room.id === chosen);
  return (
    <>
      <label htmlFor={id}>Room (optional)</label>
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
