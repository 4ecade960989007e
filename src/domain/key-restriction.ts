import type { Uuid } from './values.ts';

/**
 * Restriction of an API key (decision 55). A member that is absent does not restrict; a list that is present is
 * never empty. `homes`, `rooms`, `groups` and `devices` are places: a device is reached if it is in any of them.
 * `categories` and `actions` narrow further, each by itself.
 */
export interface KeyRestriction {
  homes?: readonly Uuid[];
  rooms?: readonly Uuid[];
  /** Slugs. */
  groups?: readonly string[];
  devices?: readonly Uuid[];
  categories?: readonly string[];
  /** Names of actions as manifests have them. */
  actions?: readonly string[];
}

/** The facts about a device that decide whether it is reached, apart from its groups. */
export interface DevicePlace {
  id: Uuid;
  homeId: Uuid | null;
  roomId: Uuid | null;
  category: string | null;
}

/** Whether a restriction names places; otherwise every device of the tenant is in its place. */
export const namesPlaces = ({ homes, rooms, groups, devices }: KeyRestriction): boolean =>
  homes !== undefined || rooms !== undefined || groups !== undefined || devices !== undefined;

/** Whether a restriction reaches fewer devices than the tenant has. */
export const limitsDevices = (restriction: KeyRestriction): boolean =>
  namesPlaces(restriction) || restriction.categories !== undefined;

/** Whether the restriction reaches the device; `isInGroup`: whether it is in a group that the restriction names. */
export function reachesDevice(restriction: KeyRestriction, device: DevicePlace, isInGroup: boolean): boolean {
  const { homes, rooms, devices, categories } = restriction;
  const has = (ids: readonly string[] | undefined, id: string | null) => id !== null && ids?.includes(id) === true;
  if (categories !== undefined && !has(categories, device.category)) return false;
  if (!namesPlaces(restriction)) return true;
  return has(homes, device.homeId) || has(rooms, device.roomId) || has(devices, device.id) || isInGroup;
}

export const permitsAction = ({ actions }: KeyRestriction, action: string): boolean =>
  actions === undefined || actions.includes(action);
