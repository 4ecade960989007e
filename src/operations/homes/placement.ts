import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import { notFound } from '../inputs.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';

// Placement of devices in homes and rooms. Placing a device takes the tenant's placement lock as shared, deleting a
// home or a room as exclusive.

export interface Placement {
  homeId: Uuid | null;
  roomId: Uuid | null;
}

/** Runs work that finds a home or room and then places a device there. */
export const withPlacementLock = <T>(
  { locks }: Pick<Services, 'locks'>,
  tenantId: Uuid,
  work: () => Promise<T>,
): Promise<T> => locks.shared(`places:${tenantId}`, work);

/** Runs work that deletes a home or room; no device of the tenant is placed during it. */
export const withExclusivePlacementLock = <T>(
  { locks }: Pick<Services, 'locks'>,
  tenantId: Uuid,
  work: () => Promise<T>,
): Promise<T> => locks.exclusive(`places:${tenantId}`, work);

/** Moves every device out of a home or a room; resolves when all moves are durable. */
export async function unplaceDevices(
  { store, actors, clock }: Pick<Services, 'actors' | 'clock' | 'store'>,
  caller: Caller,
  origin: { homeId: Uuid } | { roomId: Uuid },
): Promise<void> {
  const changes = 'homeId' in origin ? { homeId: null, roomId: null } : { roomId: null };
  const ids = await store.devices.placedIn(tenantOf(caller), origin);
  const event: DeviceEvent = { type: 'patch', at: clock.now(), by: caller.principal, changes };
  await Promise.all(ids.map((id) => actors.send({ kind: 'device', id }, event)));
}

/**
 * The changes to a device's current placement. A device that moves to another home without a new room leaves its old
 * room.
 */
export async function resolvePlacement(
  { store }: Pick<Services, 'store'>,
  tenantId: Uuid,
  input: { home_id?: Uuid | undefined; room_id?: Uuid | null | undefined },
  current: Placement,
): Promise<Outcome<Partial<Placement>>> {
  const { home_id, room_id } = input;
  if (home_id !== undefined && (await store.records.home(tenantId, home_id)) === null) return notFound('home');
  const homeId = home_id ?? current.homeId;
  if (room_id) {
    const room = await store.records.room(tenantId, room_id);
    if (room === null) return notFound('room');
    if (room.homeId !== homeId) return roomOutsideHome();
  }
  const leaves = room_id === undefined && homeId !== current.homeId && current.roomId !== null;
  return done({
    ...(home_id !== undefined && { homeId: home_id }),
    ...(room_id !== undefined && { roomId: room_id }),
    ...(leaves && { roomId: null }),
  });
}

const roomOutsideHome = () =>
  refuse('VALIDATION_FAILED', 'The room is not in the home.', {
    errors: [{ path: 'room_id', message: 'is not a room of the home' }],
  });
