import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import { notFound } from '../inputs.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';

// Where devices stand. Those who place one share a lock that who deletes a home or a room holds alone.

export interface Placement {
  homeId: Uuid | null;
  roomId: Uuid | null;
}

/** Runs what looks a home or room up and then places a device there. */
export const withPlacementLock = <T>({ locks }: Services, tenantId: Uuid, work: () => Promise<T>): Promise<T> =>
  locks.shared(`places:${tenantId}`, work);

/** Runs what takes a home or room away: nobody places a device in the tenant meanwhile. */
export const withExclusivePlacementLock = <T>(
  { locks }: Services,
  tenantId: Uuid,
  work: () => Promise<T>,
): Promise<T> => locks.exclusive(`places:${tenantId}`, work);

/** Moves every device out of a home or a room; resolves when all of that is durable. */
export async function unplaceDevices(
  { store, actors, clock }: Services,
  caller: Caller,
  place: { homeId: Uuid } | { roomId: Uuid },
): Promise<void> {
  const changes = 'homeId' in place ? { homeId: null, roomId: null } : { roomId: null };
  const ids = await store.devices.placedIn(tenantOf(caller), place);
  const event: DeviceEvent = { type: 'patch', at: clock.now(), by: caller.principal, changes };
  await Promise.all(ids.map((id) => actors.send({ kind: 'device', id }, event)));
}

/**
 * What the wish makes of the place a device has now: only what changes. Who moves to another home without naming a room
 * leaves the old one's room.
 */
export async function resolvePlacement(
  { store }: Pick<Services, 'store'>,
  tenantId: Uuid,
  wish: { home_id?: Uuid | undefined; room_id?: Uuid | null | undefined },
  now: Placement,
): Promise<Outcome<Partial<Placement>>> {
  const { home_id, room_id } = wish;
  if (home_id !== undefined && (await store.records.home(tenantId, home_id)) === null) return notFound('home');
  const homeId = home_id ?? now.homeId;
  if (room_id) {
    const room = await store.records.room(tenantId, room_id);
    if (room === null) return notFound('room');
    if (room.homeId !== homeId) return roomOutsideHome();
  }
  const leaves = room_id === undefined && homeId !== now.homeId && now.roomId !== null;
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
