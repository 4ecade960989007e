import { z } from 'zod';
import type { Position } from '../../domain/cursor.ts';
import { readCost } from '../../domain/history/read-cost.ts';
import { pathNamesOf, stateValueAt, telemetryValueAt } from '../../domain/history/sample.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { allowsScope } from '../../domain/scopes.ts';
import { steppedProperties } from '../../domain/stepped-properties.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { SeriesKey, SeriesRange } from '../../store/contract/history.ts';
import type { DeviceFilter, DeviceRow } from '../../store/contract.ts';
import { category as categoryInput, notFound, slug } from '../inputs.ts';
import { reachedDeviceIds, reachedPlaces, seenGroups, seesHome, seesRoom } from '../key-reach.ts';
import { type Caller, type ChargeCost, type Services, tenantOf } from '../operation.ts';
import { type CommittedDevice, isVisibleTo, pendingReports } from './device-view.ts';
import { invalid, propertyPath } from './history-range.ts';
import { type RequestedSeries, readSeriesDays } from './series-days.ts';
import { tagFilter } from './tags.ts';

/** Series of one request. */
export const MAX_SERIES = 100;
/** Devices whose properties are examined for a request, and those of one statement. */
const MAX_EXAMINED = 1_000;
const PAGE_DEVICES = 100;
/** Series of a request whose samples are looked for in the store. */
const MAX_CHECKED = 200;

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
    .meta({
      description:
        'In place of series: the devices with all of these, newest first; those without a property are left out',
    }),
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

/** The days of the range, as the store numbers them. */
export type SeriesDayRange = Pick<SeriesRange, 'from' | 'to'>;

interface SelectionOptions {
  /** Number of series. */
  limit: number;
  daysOf(): Promise<Outcome<SeriesDayRange>>;
  charge?: ChargeCost | undefined;
}

/** The first `limit` series; refused if a device, or what selects devices, is missing or out of the caller's reach. */
export async function selectSeries(
  services: Pick<Services, 'actors' | 'manifests' | 'store'>,
  caller: Caller,
  { series, devices, properties }: Selection,
  { limit, daysOf, charge }: SelectionOptions,
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
  const filter = await filterOf(services.store, caller, devices);
  if (!filter.ok) return filter;
  const days = await daysOf();
  if (!days.ok) return days;
  const sought = { tenantId: tenantOf(caller), properties, days: days.value, limit, charge };
  return existingSeries(services, sought, filter.value);
}

interface SoughtSeries extends Pick<SelectionOptions, 'limit' | 'charge'> {
  tenantId: Uuid;
  properties: readonly string[];
  days: SeriesDayRange;
}

/**
 * The series that the devices have, newest devices first: a property of the manifest, of an action's expected state, or of what
 * the device last reported, and one with samples of the days, which is found for `MAX_CHECKED` others. A device without the
 * property must not take the place of one that has it.
 */
async function existingSeries(
  services: Pick<Services, 'actors' | 'manifests' | 'store'>,
  { properties, limit, ...range }: SoughtSeries,
  filter: DeviceFilter,
): Promise<Outcome<SelectedSeries>> {
  const found: RequestedSeries[] = [];
  let unchecked = MAX_CHECKED;
  let after: Position | undefined;
  for (let examined = 0; examined < MAX_EXAMINED; examined += PAGE_DEVICES) {
    const { items, next } = await services.store.devices.list(range.tenantId, filter, PAGE_DEVICES, after);
    const candidates = untilKnown(await candidatesOf(services, items, properties), limit + 1 - found.length);
    const others = candidates.filter(({ isKnown }) => !isKnown).slice(0, unchecked);
    unchecked -= others.length;
    const keys = others.map(({ key }) => key);
    const stored = await storedAmong(services, keys, range);
    if (!stored.ok) return stored;
    for (const { key, isKnown } of candidates) if (isKnown || stored.value.has(key)) found.push(key);
    if (found.length > limit) return done({ keys: found.slice(0, limit), hasMore: true });
    if (next === null) return done({ keys: found, hasMore: false });
    after = next;
  }
  return done({ keys: found, hasMore: true });
}

interface Candidate {
  key: RequestedSeries;
  /** Its device has it by its manifest, or by what it last reported. */
  isKnown: boolean;
}

/** Those up to the known one with the number `count`, because no later one can be in the answer. */
function untilKnown(candidates: readonly Candidate[], count: number): readonly Candidate[] {
  const last = candidates.filter(({ isKnown }) => isKnown)[count - 1];
  return last === undefined ? candidates : candidates.slice(0, candidates.indexOf(last) + 1);
}

async function candidatesOf(
  { actors, manifests }: Pick<Services, 'actors' | 'manifests'>,
  devices: readonly Pick<DeviceRow, 'id'>[],
  properties: readonly string[],
): Promise<Candidate[]> {
  const ids = devices.map(({ id }) => id);
  const read = await actors.readAll<DeviceContext>('device', ids);
  const refs = [...read].map(([id, { snapshot }]) => ({ id, manifestVersion: snapshot.context.fixed.manifestVersion }));
  const loaded = await manifests.load(refs);
  return ids.flatMap((deviceId) => {
    const device = read.get(deviceId);
    if (device === undefined) return [];
    const { capabilities = [], properties: described = {} } = loaded.get(deviceId) ?? {};
    const stepped = steppedProperties(capabilities, described);
    const { state } = device.snapshot.context.live;
    return properties.map((property) => {
      const key = requested({ deviceId, property }, read);
      const isKnown =
        Object.hasOwn(described, property) ||
        stepped.has(pathNamesOf(property).join('.')) ||
        stateValueAt(state, property) !== undefined ||
        (key.pending ?? []).some(([, , , , telemetry = {}]) => telemetryValueAt(telemetry, property) !== undefined);
      return { key, isKnown };
    });
  });
}

/**
 * Those with samples of the days; reading them has a cost like that of the answer. One whose device has too many reports to
 * read now is left out.
 */
async function storedAmong(
  services: Pick<Services, 'store'>,
  keys: readonly RequestedSeries[],
  { tenantId, days, charge }: Pick<SoughtSeries, 'tenantId' | 'days' | 'charge'>,
): Promise<Outcome<ReadonlySet<RequestedSeries>>> {
  const stored = new Set<RequestedSeries>();
  if (keys.length === 0) return done(stored);
  const rollups = keys.length * (days.to - days.from + 1);
  const charged = await charge?.(readCost({ points: 0, rollups, series: keys.length }));
  if (charged?.ok === false) return charged;
  let n = 0;
  for await (const read of readSeriesDays(services, { tenantId, keys }, { ...days, withoutEarlier: true }, '1d')) {
    const key = keys[n];
    n += 1;
    if (key !== undefined && read.ok && read.value.days.length > 0) stored.add(key);
  }
  return done(stored);
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
