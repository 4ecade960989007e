import DataLoader from 'dataloader';
import type { JsonObject } from '../../domain/values.ts';
import {
  findDevices,
  findHomes,
  findManifests,
  findRooms,
  findRoomsOfHomes,
} from '../../operations/devices/bulk-lookups.ts';
import { type Context, performRead } from './context.ts';

// What the fields of one request ask for at the same time is asked of the operations at once. Nothing is remembered: a
// request that changes something sees what it changed.

type Entity = Readonly<Record<string, unknown>>;

function loader<T>(
  { loaders }: Context,
  name: string,
  load: (keys: readonly string[]) => Promise<(key: string) => T>,
): DataLoader<string, T> {
  const known = loaders.get(name);
  if (known !== undefined) return known as DataLoader<string, T>;
  const made = new DataLoader<string, T>(
    async (keys) => {
      const found = await load([...new Set(keys)]);
      return keys.map(found);
    },
    { cache: false },
  );
  loaders.set(name, made as DataLoader<string, unknown>);
  return made;
}

const byId = <T extends Entity>(things: readonly T[], id: keyof T): ((key: string) => T | null) => {
  const found = new Map<unknown, T>(things.map((thing) => [thing[id], thing]));
  return (key) => found.get(key) ?? null;
};

const fetchEntities = async (
  context: Context,
  operation: Parameters<typeof performRead>[1],
  input: JsonObject,
  member: string,
) => ((await performRead(context, operation, input)).body as Record<string, Entity[]>)[member] as Entity[];

const idsInput = (ids: readonly string[]): JsonObject => ({ ids: [...ids] });

export const load = {
  device: (context: Context, id: string) =>
    loader(context, 'device', async (ids) =>
      byId(await fetchEntities(context, findDevices, idsInput(ids), 'devices'), 'id'),
    ).load(id),
  manifest: (context: Context, deviceId: string) =>
    loader(context, 'manifest', async (ids) =>
      byId(await fetchEntities(context, findManifests, idsInput(ids), 'manifests'), 'deviceId'),
    ).load(deviceId),
  home: (context: Context, id: string) =>
    loader(context, 'home', async (ids) =>
      byId(await fetchEntities(context, findHomes, idsInput(ids), 'homes'), 'id'),
    ).load(id),
  room: (context: Context, id: string) =>
    loader(context, 'room', async (ids) =>
      byId(await fetchEntities(context, findRooms, idsInput(ids), 'rooms'), 'id'),
    ).load(id),
  roomsOf: (context: Context, homeId: string, limit: number) =>
    loader(context, `rooms ${limit}`, async (ids) => {
      const rooms = await fetchEntities(context, findRoomsOfHomes, { home_ids: [...ids], limit }, 'rooms');
      const byHome = Map.groupBy(rooms, ({ home_id }) => home_id);
      return (homeId) => byHome.get(homeId) ?? [];
    }).load(homeId),
};
