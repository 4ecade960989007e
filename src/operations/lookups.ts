import { z } from 'zod';
import { done } from '../domain/refusals.ts';
import type { DeviceContext } from '../machines/device-types.ts';
import { belongs, type CommittedDevice, deviceRecord, recordsOf } from './device-view.ts';
import { getDevice } from './devices.ts';
import { getHome, homeBody, homeRecord, listRooms, roomBody, roomRecord } from './homes.ts';
import { getManifest, recordOf as manifestBody, manifestRecord } from './manifests.ts';
import { type Caller, type Operation, operation, type Services, tenantOf } from './operation.ts';

// What other things name by its id, many at once and in no order, for wires that show it inside them. Each needs what the
// operation needs that shows it alone; what is missing, or another tenant's, is left out.

const MOST = 10_000;
const ids = z.array(z.uuid()).max(MOST);

const as = ({ name, role, scope }: Pick<Operation, 'name' | 'role' | 'scope'>) => ({
  ...{ name, role, scope },
  changes: false as const,
});

async function devicesOf(
  { actors }: Pick<Services, 'actors'>,
  caller: Caller,
  wanted: readonly string[],
): Promise<CommittedDevice[]> {
  const found = await actors.readAll<DeviceContext>('device', wanted);
  return [...found.values()].filter((device) => belongs(device, tenantOf(caller)));
}

export const findDevices = operation({
  ...as(getDevice),
  summary: 'Show several devices',
  input: z.strictObject({ ids }),
  output: z.object({ devices: z.array(deviceRecord) }),
  async run(services, { input, caller }) {
    const devices = await devicesOf(services, caller, input.ids);
    return done({ body: { devices: await recordsOf(services, devices) } });
  },
});

export const findManifests = operation({
  ...as(getManifest),
  summary: 'What several devices can do',
  input: z.strictObject({ ids }),
  output: z.object({ manifests: z.array(manifestRecord) }),
  async run(services, { input, caller }) {
    const devices = await devicesOf(services, caller, input.ids);
    const manifests = await services.manifests.of(devices.map(({ snapshot }) => snapshot.context));
    return done({ body: { manifests: [...manifests.values()].map(manifestBody) } });
  },
});

export const findHomes = operation({
  ...as(getHome),
  summary: 'Show several homes',
  input: z.strictObject({ ids }),
  output: z.object({ homes: z.array(homeRecord) }),
  async run({ store }, { input, caller }) {
    const homes = await store.records.findHomes(tenantOf(caller), input.ids);
    return done({ body: { homes: homes.map(homeBody) } });
  },
});

export const findRooms = operation({
  ...as(listRooms),
  summary: 'Show several rooms',
  input: z.strictObject({ ids }),
  output: z.object({ rooms: z.array(roomRecord) }),
  async run({ store }, { input, caller }) {
    const rooms = await store.records.findRooms(tenantOf(caller), input.ids);
    return done({ body: { rooms: rooms.map(roomBody) } });
  },
});

export const findRoomsOfHomes = operation({
  ...as(listRooms),
  summary: 'List the newest rooms of several homes',
  input: z.strictObject({ home_ids: ids, limit: z.int().min(1).max(200) }),
  output: z.object({ rooms: z.array(roomRecord) }),
  async run({ store }, { input, caller }) {
    const rooms = await store.records.roomsOf(tenantOf(caller), input.home_ids, input.limit);
    return done({ body: { rooms: rooms.map(roomBody) } });
  },
});
