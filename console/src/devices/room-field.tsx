import { useId } from 'react';
import type { listRooms } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';

/** The rooms of a home, if it has any, as the field `room`. `chosen` is selected at first. */
export function RoomField({ home, chosen = null }: { home: string; chosen?: string | null }) {
  const { data } = useGet<ResponseBody<typeof listRooms>>(`/v1/homes/${home}/rooms?limit=200`);
  const id = useId();
  if (data === undefined || data.rooms.length === 0) return null;
  return (
    <>
      <label htmlFor={id}>Room (optional)</label>
      <select id={id} name="room" defaultValue={chosen ?? ''}>
        <option value="">no room</option>
        {data.rooms.map((room) => (
          <option key={room.id} value={room.id}>
            {room.name}
          </option>
        ))}
      </select>
    </>
  );
}
