import {
  type DevicePlace,
  type KeyRestriction,
  limitsDevices,
  permitsAction,
  reachesDevice,
} from '../domain/key-restriction.ts';
import { refuse } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';
import type { CommandFixed } from '../machines/command-types.ts';
import type { DeviceContext } from '../machines/device-types.ts';
import type { Store } from '../store/contract.ts';
import { type Caller, tenantOf } from './operation.ts';

// What the restriction of an API key (decision 55) lets an operation show and do. Nothing here costs an unrestricted
// credential more than a comparison.

type Refused = ReturnType<typeof refuse>;
type Reaching = Pick<Caller, 'restriction' | 'groupDevices'>;

/** Whether the caller's credential reaches this device. Without `groupDevices`, groups that are named reach none. */
export const reaches = ({ restriction, groupDevices }: Reaching, device: DevicePlace): boolean =>
  restriction === undefined || reachesDevice(restriction, device, groupDevices?.has(device.id) === true);

/** The same for a device's committed state. */
export const reachesCommitted = (caller: Reaching, { snapshot }: { snapshot: { context: DeviceContext } }): boolean =>
  caller.restriction === undefined || reaches(caller, snapshot.context.fixed);

/** The refusal of an action that the caller's key must not command; null if it may. */
export function actionRefusal({ restriction }: Pick<Caller, 'restriction'>, action: string): Refused | null {
  if (restriction === undefined || permitsAction(restriction, action)) return null;
  return refuse('KEY_RESTRICTED', `The key is restricted to the actions ${restriction.actions?.join(', ')}.`);
}

/**
 * The refusal of a command that the caller's key must not confirm, refuse or cancel; null if it may. The end of a plan's
 * command decides what happens to other devices: later steps start, or earlier ones are undone.
 */
export function commandRefusal(
  caller: Pick<Caller, 'restriction'>,
  { action, origin }: Pick<CommandFixed, 'action' | 'origin'>,
): Refused | null {
  if (caller.restriction !== undefined && origin.plan !== null)
    return refuse('KEY_RESTRICTED', 'Commands of plans are not for keys that are restricted.');
  return actionRefusal(caller, action);
}

/** The devices of the groups that the restriction names, as of now; null if it names none. */
export async function groupDevicesOf(
  { records }: Pick<Store, 'records'>,
  tenantId: Uuid,
  slugs: readonly string[] | undefined,
): Promise<ReadonlySet<Uuid> | null> {
  if (slugs === undefined) return null;
  const groups = await Promise.all(slugs.map((slug) => records.group(tenantId, slug)));
  return new Set(groups.flatMap((group) => group?.deviceIds ?? []));
}

/** The caller with the devices of the groups that its restriction names. */
export async function withGroupDevices(store: Pick<Store, 'records'>, caller: Caller): Promise<Caller> {
  if (caller.restriction?.groups === undefined || caller.tenantId === null) return caller;
  const groupDevices = await groupDevicesOf(store, caller.tenantId, caller.restriction.groups);
  return { ...caller, ...(groupDevices !== null && { groupDevices }) };
}

/** The ids of all devices that the caller's key reaches; undefined if that is all devices of the tenant. */
export async function reachedDeviceIds(
  { devices }: Pick<Store, 'devices'>,
  caller: Caller,
): Promise<readonly Uuid[] | undefined> {
  const { restriction } = caller;
  if (restriction === undefined || !limitsDevices(restriction)) return undefined;
  return (await devices.within(tenantOf(caller), restriction)).map(({ id }) => id);
}

/** The homes and rooms that a restricted key sees. */
export interface ReachedPlaces {
  homeIds: ReadonlySet<Uuid>;
  /** Rooms of other homes than those in `wholeHomeIds`. */
  roomIds: ReadonlySet<Uuid>;
  /** Homes that are named, with all their rooms. */
  wholeHomeIds: ReadonlySet<Uuid>;
}

/**
 * The homes and rooms that the restriction names, the homes of those rooms, and the homes and rooms of the devices that
 * are reached; null if all places of the tenant are seen.
 */
export async function reachedPlaces(
  { devices, records }: Pick<Store, 'devices' | 'records'>,
  caller: Caller,
): Promise<ReachedPlaces | null> {
  const { restriction } = caller;
  if (restriction === undefined || !limitsDevices(restriction)) return null;
  const tenantId = tenantOf(caller);
  const { homes = [], rooms = [] } = restriction;
  const [reached, named] = await Promise.all([
    devices.within(tenantId, restriction),
    rooms.length === 0 ? [] : records.findRooms(tenantId, rooms),
  ]);
  const present = (ids: readonly (Uuid | null)[]): Uuid[] => ids.filter((id) => id !== null);
  return {
    homeIds: new Set([...homes, ...named.map(({ homeId }) => homeId), ...present(reached.map(({ homeId }) => homeId))]),
    roomIds: new Set([...rooms, ...present(reached.map(({ roomId }) => roomId))]),
    wholeHomeIds: new Set(homes),
  };
}

export const seesHome = (places: ReachedPlaces | null, homeId: Uuid): boolean =>
  places === null || places.homeIds.has(homeId);

export const seesRoom = (places: ReachedPlaces | null, room: { id: Uuid; homeId: Uuid }): boolean =>
  places === null || places.wholeHomeIds.has(room.homeId) || places.roomIds.has(room.id);

/** The slugs of the groups that the caller's key sees: those that are named, or all if it names no places. */
export function seenGroups({ restriction }: Pick<Caller, 'restriction'>): readonly string[] | undefined {
  if (restriction === undefined) return undefined;
  const { homes, rooms, groups, devices } = restriction;
  return homes === undefined && rooms === undefined && devices === undefined ? groups : (groups ?? []);
}

/** Those of the tenant's devices with these ids that the caller's key reaches, in the order of the ids. */
export async function onlyReached(
  { devices }: Pick<Store, 'devices'>,
  caller: Caller,
  ids: readonly Uuid[],
): Promise<Uuid[]> {
  const { restriction } = caller;
  if (restriction === undefined || !limitsDevices(restriction)) return [...ids];
  const found = await devices.find(tenantOf(caller), ids);
  const reached = new Set(found.filter((device) => reaches(caller, device)).map(({ id }) => id));
  return ids.filter((id) => reached.has(id));
}

/** The kind of the first thing that a new restriction names and the tenant does not have; null if it has all. */
export async function missingNamed(
  { devices, records }: Pick<Store, 'devices' | 'records'>,
  tenantId: Uuid,
  { homes = [], rooms = [], groups = [], devices: ids = [] }: KeyRestriction,
): Promise<'home' | 'room' | 'group' | 'device' | null> {
  const [foundHomes, foundRooms, foundDevices, foundGroups] = await Promise.all([
    homes.length === 0 ? [] : records.findHomes(tenantId, homes),
    rooms.length === 0 ? [] : records.findRooms(tenantId, rooms),
    devices.find(tenantId, ids),
    Promise.all(groups.map((slug) => records.group(tenantId, slug))),
  ]);
  if (foundHomes.length < homes.length) return 'home';
  if (foundRooms.length < rooms.length) return 'room';
  if (foundDevices.length < ids.length) return 'device';
  return foundGroups.includes(null) ? 'group' : null;
}
