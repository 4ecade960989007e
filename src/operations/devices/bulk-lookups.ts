import { z } from 'zod';
import { done } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import { getHome, homeBody, homeRecord, listRooms, roomBody, roomRecord } from '../homes/homes.ts';
import { reachedDeviceIds, reachedPlaces, seesHome, seesRoom } from '../key-reach.ts';
import { type Caller, type Operation, operation, type Services, tenantOf } from '../operation.ts';
import {
  type CommittedDevice,
  deviceEntry,
  deviceEntryOf,
  deviceRecord,
  deviceRecordsOf,
  isVisibleTo,
} from './device-view.ts';
import { getDevice, listDevices } from './devices.ts';
import { getManifest, manifestRecordOf as manifestBody, manifestRecord } from './manifests.ts';

// Bulk lookups by id, unordered, for protocols that embed related records. Each requires the role and scope of the
// operation that shows a single record; ids that are missing or belong to another tenant are left out.

const MAX_IDS = 10_000;
const ids = z.array(uuid).max(MAX_IDS);

const readLike = ({
  name,
  role,
  scope,
  restrictedKeys,
}: Pick<Operation, 'name' | 'role' | 'scope' | 'restrictedKeys'>) => ({
  ...{ name, role, scope },
  ...(restrictedKeys !== undefined && { restrictedKeys }),
  changes: false as const,
});

async function findOwnDevices(
  { actors }: Pick<Services, 'actors'>,
  caller: Caller,
  wanted: readonly string[],
): Promise<CommittedDevice[]> {
  const found = await actors.readAll<DeviceContext>('device', wanted);
  return [...found.values()].filter((device) => isVisibleTo(device, caller));
}

export const findDevices = operation({
  ...readLike(getDevice),
  summary: 'Show several devices',
  input: z.strictObject({ ids }),
  output: z.object({ devices: z.array(deviceRecord) }),
  needs: ['actors', 'clock', 'sessions', 'store'],
  async run(services, { input, caller }) {
    const devices = await findOwnDevices(services, caller, input.ids);
    return done({ body: { devices: await deviceRecordsOf(services, devices) } });
  },
});

export const findManifests = operation({
  ...readLike(getManifest),
  summary: 'Show the manifests of several devices',
  input: z.strictObject({ ids }),
  output: z.object({ manifests: z.array(manifestRecord) }),
  needs: ['actors', 'manifests'],
  async run(services, { input, caller }) {
    const devices = await findOwnDevices(services, caller, input.ids);
    const manifests = await services.manifests.load(devices.map(({ snapshot }) => snapshot.context.fixed));
    return done({ body: { manifests: [...manifests.values()].map(manifestBody) } });
  },
});

export const findHomes = operation({
  ...readLike(getHome),
  summary: 'Show several homes',
  input: z.strictObject({ ids }),
  output: z.object({ homes: z.array(homeRecord) }),
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const places = await reachedPlaces(store, caller);
    const homes = await store.records.findHomes(tenantOf(caller), input.ids);
    return done({ body: { homes: homes.filter(({ id }) => seesHome(places, id)).map(homeBody) } });
  },
});

export const findRooms = operation({
  ...readLike(listRooms),
  summary: 'Show several rooms',
  input: z.strictObject({ ids }),
  output: z.object({ rooms: z.array(roomRecord) }),
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const places = await reachedPlaces(store, caller);
    const rooms = await store.records.findRooms(tenantOf(caller), input.ids);
    return done({ body: { rooms: rooms.filter((room) => seesRoom(places, room)).map(roomBody) } });
  },
});

const placesInput = z.strictObject({ ids, limit: z.int().min(1).max(200) });

const findDevicesOf = (place: 'homeId' | 'roomId') =>
  operation({
    ...readLike(listDevices),
    summary: `List the newest devices of several ${place === 'homeId' ? 'homes' : 'rooms'}`,
    input: placesInput,
    output: z.object({ devices: z.array(deviceEntry) }),
    needs: ['sessions', 'store'],
    async run({ sessions, store }, { input, caller }) {
      const reached = await reachedDeviceIds(store, caller);
      const found = await store.devices.inPlaces(tenantOf(caller), place, input.ids, input.limit, reached);
      return done({ body: { devices: found.map((row) => deviceEntryOf(row, sessions)) } });
    },
  });

export const findDevicesOfHomes = findDevicesOf('homeId');
export const findDevicesOfRooms = findDevicesOf('roomId');

export const findRoomsOfHomes = operation({
  ...readLike(listRooms),
  summary: 'List the newest rooms of several homes',
  input: z.strictObject({ home_ids: ids, limit: z.int().min(1).max(200) }),
  output: z.object({ rooms: z.array(roomRecord) }),
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const places = await reachedPlaces(store, caller);
    const seen = places && { roomIds: [...places.roomIds], wholeHomeIds: [...places.wholeHomeIds] };
    const rooms = await store.records.roomsOf(tenantOf(caller), input.home_ids, input.limit, seen);
    return done({ body: { rooms: rooms.map(roomBody) } });
  },
});
