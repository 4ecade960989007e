import DataLoader from 'dataloader';
import type { JsonObject } from '../../domain/values.ts';
import {
  findDevices,
  findDevicesOfHomes,
  findDevicesOfRooms,
  findHomes,
  findManifests,
  findRooms,
  findRoomsOfHomes,
} from '../../operations/devices/bulk-lookups.ts';
import { type GraphqlContext, performRead } from './graphql-context.ts';

// Batches the lookups that the fields of one request make in the same tick. Results are not cached, so that a request sees its
// own changes.

type Entity = Readonly<Record<string, unknown>>;

function loader<T>(
  { loaders }: GraphqlContext,
  name: string,
  load: (keys: readonly string[]) => Promise<(key: string) => T>,
): DataLoader<string, T> {
  const existing = loaders.get(name);
  if (existing !== undefined) return existing as DataLoader<string, T>;
  const created = new DataLoader<string, T>(
    async (keys) => {
      const found = await load([...new Set(keys)]);
      return keys.map(found);
    },
    { cache: false },
  );
  loaders.set(name, created as DataLoader<string, unknown>);
  return created;
}

const byId = <T extends Entity>(entities: readonly T[], id: keyof T): ((key: string) => T | null) => {
  const found = new Map<unknown, T>(entities.map((entity) => [entity[id], entity]));
  return (key) => found.get(key) ?? null;
};

const fetchEntities = async (
  context: GraphqlContext,
  operation: Parameters<typeof performRead>[1],
  input: JsonObject,
  member: string,
) => ((await performRead(context, operation, input)).body as Record<string, Entity[]>)[member] as Entity[];

const idsInput = (ids: readonly string[]): JsonObject => ({ ids: [...ids] });

/** The newest devices of each home or room, by the member of a device that names it. */
const devicesIn =
  (operation: typeof findDevicesOfHomes, member: 'home_id' | 'room_id') =>
  (context: GraphqlContext, id: string, limit: number): Promise<Entity[]> =>
    loader(context, `devices by ${member} ${limit}`, async (ids) => {
      const devices = await fetchEntities(context, operation, { ids: [...ids], limit }, 'devices');
      const byPlace = Map.groupBy(devices, (device) => device[member]);
      return (place) => byPlace.get(place) ?? [];
    }).load(id);

export const load = {
  devicesOfHome: devicesIn(findDevicesOfHomes, 'home_id'),
  devicesOfRoom: devicesIn(findDevicesOfRooms, 'room_id'),
  device: (context: GraphqlContext, id: string) =>
    loader(context, 'device', async (ids) =>
      byId(await fetchEntities(context, findDevices, idsInput(ids), 'devices'), 'id'),
    ).load(id),
  manifest: (context: GraphqlContext, deviceId: string) =>
    loader(context, 'manifest', async (ids) =>
      byId(await fetchEntities(context, findManifests, idsInput(ids), 'manifests'), 'deviceId'),
    ).load(deviceId),
  home: (context: GraphqlContext, id: string) =>
    loader(context, 'home', async (ids) =>
      byId(await fetchEntities(context, findHomes, idsInput(ids), 'homes'), 'id'),
    ).load(id),
  room: (context: GraphqlContext, id: string) =>
    loader(context, 'room', async (ids) =>
      byId(await fetchEntities(context, findRooms, idsInput(ids), 'rooms'), 'id'),
    ).load(id),
  roomsOf: (context: GraphqlContext, homeId: string, limit: number) =>
    loader(context, `rooms ${limit}`, async (ids) => {
      const rooms = await fetchEntities(context, findRoomsOfHomes, { home_ids: [...ids], limit }, 'rooms');
      const byHome = Map.groupBy(rooms, ({ home_id }) => home_id);
      return (homeId) => byHome.get(homeId) ?? [];
    }).load(homeId),
};
