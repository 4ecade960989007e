import { z } from 'zod';
import { seriesPathOf } from '../../domain/history/sample.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { allowsScope } from '../../domain/scopes.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { SeriesKey } from '../../store/contract/history.ts';
import type { DeviceFilter } from '../../store/contract.ts';
import { category as categoryInput, notFound, slug } from '../inputs.ts';
import { reachedDeviceIds, reachedPlaces, seenGroups, seesHome, seesRoom } from '../key-reach.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';
import { type CommittedDevice, isVisibleTo, pendingReports } from './device-view.ts';
import { invalid, propertyPath } from './history-range.ts';
import type { RequestedSeries } from './series-days.ts';
import { tagFilter } from './tags.ts';

/** Series of one request. */
export const MAX_SERIES = 100;

/** The members of an input that name series: one by one, or properties of selected devices. */
export const selectionInput = {
  series: z
    .array(z.strictObject({ device_id: uuid, property: propertyPath }))
    .min(1)
    .max(MAX_SERIES)
    .optional()
    .meta({ description: 'The series, in the order of the answer' }),
  devices: z
    .strictObject({
      home_id: uuid.optional(),
      room_id: uuid.optional(),
      group: slug.optional(),
      tags: tagFilter.optional(),
      category: categoryInput.optional(),
    })
    .optional()
    .meta({ description: 'In place of series: the devices with all of these, newest first' }),
  properties: z
    .array(propertyPath)
    .min(1)
    .max(20)
    .optional()
    .meta({ description: 'With devices: the properties of each' }),
};
const selection = z.object(selectionInput);
type Selection = z.infer<typeof selection>;

/** The series of a request. */
export interface SelectedSeries {
  keys: RequestedSeries[];
  /** The selected devices have more series than these. */
  hasMore: boolean;
}

/** The first `limit` series; refused if a device, or what selects devices, is missing or out of the caller's reach. */
export async function selectSeries(
  services: Pick<Services, 'actors' | 'store'>,
  caller: Caller,
  { series, devices, properties }: Selection,
  limit: number,
): Promise<Outcome<SelectedSeries>> {
  if (series !== undefined) {
    if (devices !== undefined || properties !== undefined)
      return invalid('series', 'cannot be combined with devices and properties');
    if (series.length > limit) return invalid('series', `must not have more than ${limit}, the max_series`);
    return namedSeries(services, caller, series);
  }
  if (devices === undefined || properties === undefined)
    return invalid('series', 'or devices and properties are required');
  if (Object.keys(devices).length === 0) return invalid('devices', 'must not be empty');
  if (!allowsScope(caller.scopes, 'read:devices'))
    return refuse('INSUFFICIENT_SCOPE', 'To select devices also requires the scope read:devices.');
  const found = await selectedDevices(services, caller, devices, Math.ceil(limit / properties.length));
  if (!found.ok) return found;
  const { ids } = found.value;
  // Only telemetry waits for a commit.
  const isWaiting = properties.some((property) => seriesPathOf(property)?.from === 'telemetry');
  const read = isWaiting ? await services.actors.readAll<DeviceContext>('device', ids) : new Map();
  const all = ids.flatMap((deviceId) => properties.map((property) => requested({ deviceId, property }, read)));
  return done({ keys: all.slice(0, limit), hasMore: found.value.hasMore || all.length > limit });
}

async function namedSeries(
  { actors }: Pick<Services, 'actors'>,
  caller: Caller,
  series: NonNullable<Selection['series']>,
): Promise<Outcome<SelectedSeries>> {
  const ids = [...new Set(series.map(({ device_id }) => device_id))];
  const found = await actors.readAll<DeviceContext>('device', ids);
  const isFound = (id: Uuid): boolean => {
    const device = found.get(id);
    return device !== undefined && isVisibleTo(device, caller);
  };
  if (!ids.every(isFound)) return notFound('device');
  const keys = series.map(({ device_id, property }) => requested({ deviceId: device_id, property }, found));
  return done({ keys, hasMore: false });
}

function requested(key: SeriesKey, devices: ReadonlyMap<Uuid, CommittedDevice>): RequestedSeries {
  const device = devices.get(key.deviceId);
  return device === undefined ? key : { ...key, pending: pendingReports(device) };
}

async function selectedDevices(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  given: NonNullable<Selection['devices']>,
  limit: number,
): Promise<Outcome<{ ids: Uuid[]; hasMore: boolean }>> {
  const filter = await filterOf(store, caller, given);
  if (!filter.ok) return filter;
  const { items } = await store.devices.list(tenantOf(caller), filter.value, limit + 1);
  return done({ ids: items.slice(0, limit).map(({ id }) => id), hasMore: items.length > limit });
}

/** The filter for what selects devices, as far as the caller's key reaches. */
async function filterOf(
  store: Services['store'],
  caller: Caller,
  { home_id, room_id, group, tags, category }: NonNullable<Selection['devices']>,
): Promise<Outcome<DeviceFilter>> {
  const tenantId = tenantOf(caller);
  const places = home_id === undefined && room_id === undefined ? null : await reachedPlaces(store, caller);
  if (home_id !== undefined) {
    const home = await store.records.home(tenantId, home_id);
    if (home === null || !seesHome(places, home.id)) return notFound('home');
  }
  if (room_id !== undefined) {
    const room = await store.records.room(tenantId, room_id);
    if (room === null || !seesRoom(places, room)) return notFound('room');
  }
  const reached = await reachedDeviceIds(store, caller);
  const members = group === undefined ? null : await membersOf(store, caller, group);
  if (members !== null && !members.ok) return members;
  const within = reached === undefined ? null : new Set(reached);
  const ids = members?.value.filter((id) => within?.has(id) ?? true) ?? reached;
  return done({
    ...(home_id !== undefined && { homeId: home_id }),
    ...(room_id !== undefined && { roomId: room_id }),
    ...(tags !== undefined && { tags }),
    ...(category !== undefined && { category }),
    ...(ids !== undefined && { ids }),
  });
}

async function membersOf(store: Services['store'], caller: Caller, name: string): Promise<Outcome<readonly Uuid[]>> {
  const isSeen = seenGroups(caller)?.includes(name) ?? true;
  const found = isSeen ? await store.records.group(tenantOf(caller), name) : null;
  return found === null ? notFound('group') : done(found.deviceIds);
}
