import type { Uuid } from '../domain/values.ts';
import type { DeviceEvent } from '../machines/device-types.ts';
import type { Caller, Services } from './operation.ts';
import { tenantOf } from './operation.ts';

/** Runs what takes a home or room away: nobody places a device in the tenant meanwhile. */
export const clearing = <T>({ locks }: Services, tenantId: Uuid, work: () => Promise<T>): Promise<T> =>
  locks.alone(`places:${tenantId}`, work);

/** Moves every device out of a home or a room; resolves when all of that is durable. */
export async function takeAway(
  { store, actors, clock }: Services,
  caller: Caller,
  place: { homeId: Uuid } | { roomId: Uuid },
): Promise<void> {
  const changes = 'homeId' in place ? { homeId: null, roomId: null } : { roomId: null };
  const ids = await store.devices.placedIn(tenantOf(caller), place);
  const event: DeviceEvent = { type: 'patch', at: clock.now(), by: caller.principal, changes };
  await Promise.all(ids.map((id) => actors.send({ kind: 'device', id }, event)));
}
