import { z } from 'zod';
import { iso } from '../../domain/iso-time.ts';
import { done, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Home, Room } from '../../store/contract.ts';
import {
  cursorAfter,
  cursorsIn,
  displayName,
  idOf,
  isoTime,
  listCount,
  nextCursor,
  notFound,
  paging,
  startOf,
  timezone,
} from '../inputs.ts';
import { reachedPlaces, seesHome, seesRoom } from '../key-reach.ts';
import { operation, tenantOf } from '../operation.ts';
import { withinQuota } from '../quota-checks.ts';
import { unplaceDevices, withExclusivePlacementLock, withPlacementLock } from './placement.ts';

export const homeRecord = z
  .object({ id: uuid, home_name: z.string(), timezone: z.string().nullable(), created_at: isoTime })
  .meta({ id: 'Home' });
export const roomRecord = z.object({ id: uuid, name: z.string(), home_id: uuid }).meta({ id: 'Room' });
const created = z.object({ status: z.literal('created'), id: uuid }).meta({ id: 'Created' });
const noContent = z.null();

export const homeBody = ({ id, name, timezone, createdAt }: Home) => ({
  id,
  home_name: name,
  timezone,
  created_at: iso(createdAt),
});
export const roomBody = ({ id, name, homeId }: Room) => ({ id, name, home_id: homeId });
const createdBody = (id: Uuid) => ({ body: { status: 'created' as const, id } });

// For the API reference.
const HOME = {
  id: '0195d9a2-7f00-7000-8000-000000000001',
  home_name: 'Lakeside',
  timezone: 'Europe/Berlin',
  created_at: '2026-03-01T12:00:00.000Z',
};
const ROOM = { id: '0195d9a2-7f00-7000-8000-000000000002', name: 'Kitchen', home_id: HOME.id };

export const createHome = operation({
  name: 'createHome',
  summary: 'Create a home',
  input: z.strictObject({ home_name: displayName, timezone: timezone.optional() }),
  output: created,
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  auditSubject: (_, { id }) => `home:${id}`,
  example: { input: { home_name: 'Lakeside', timezone: 'Europe/Berlin' }, output: createdBody(HOME.id).body },
  refuses: ['QUOTA_REACHED'],
  needs: ['actors', 'clock', 'locks', 'newId', 'settings', 'store'],
  run(services, { input, caller, idempotent }) {
    const { clock, newId } = services;
    const { records } = services.store;
    const tenantId = tenantOf(caller);
    const insert = async () => {
      const { home_name: name, timezone = null } = input;
      const home = { id: newId(), tenantId, name, timezone, createdAt: clock.now() };
      const answer = createdBody(home.id);
      await records.insertHome(home, idempotent?.toRow(answer));
      return done(answer);
    };
    return withinQuota(services, tenantId, 'homes', () => records.countHomes(tenantId), insert);
  },
});

export const listHomes = operation({
  name: 'listHomes',
  summary: "List the tenant's homes, newest first",
  input: z.strictObject({ ...paging }),
  output: z.object({ homes: z.array(homeRecord), count: listCount, next_cursor: nextCursor }),
  role: 'viewer',
  scope: 'read:homes',
  restrictedKeys: 'devices',
  changes: false,
  example: { output: { homes: [HOME], count: 1, next_cursor: null } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const listing = { route: 'homes' };
    const start = startOf(listing, input.cursor);
    if (!start.ok) return start;
    const places = await reachedPlaces(store, caller);
    const page = await store.records.homes(tenantOf(caller), input.limit, start.value, places && [...places.homeIds]);
    return done({
      body: { homes: page.items.map(homeBody), count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

export const getHome = operation({
  name: 'getHome',
  summary: 'Show a home',
  input: z.strictObject({ homeId: idOf('home') }),
  output: z.object({ home: homeRecord }),
  role: 'viewer',
  scope: 'read:homes',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  example: { output: { home: HOME } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const found = await store.records.home(tenantOf(caller), input.homeId);
    const isSeen = found !== null && seesHome(await reachedPlaces(store, caller), found.id);
    return isSeen ? done({ body: { home: homeBody(found) } }) : notFound('home');
  },
});

export const updateHome = operation({
  name: 'updateHome',
  summary: 'Change the name or time zone of a home',
  input: z.strictObject({
    homeId: idOf('home'),
    home_name: displayName.optional(),
    timezone: timezone.nullable().optional(),
  }),
  output: z.object({ home: homeRecord }),
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  refuses: ['NOT_FOUND'],
  example: { input: { home_name: 'Lakeside' }, output: { home: HOME } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const { homeId, home_name, timezone } = input;
    const updated = await store.records.updateHome(tenantOf(caller), homeId, {
      ...(home_name !== undefined && { name: home_name }),
      ...(timezone !== undefined && { timezone }),
    });
    return updated === null ? notFound('home') : done({ body: { home: homeBody(updated) } });
  },
});

export const deleteHome = operation({
  name: 'deleteHome',
  summary: 'Delete a home without active devices, and its rooms',
  input: z.strictObject({ homeId: idOf('home') }),
  output: noContent,
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  refuses: ['NOT_FOUND', 'CONFLICT'],
  needs: ['actors', 'clock', 'locks', 'store'],
  async run(services, { input, caller }) {
    const { store } = services;
    const tenantId = tenantOf(caller);
    return withExclusivePlacementLock(services, tenantId, async () => {
      if ((await store.records.home(tenantId, input.homeId)) === null) return notFound('home');
      if ((await store.devices.countActiveInHome(tenantId, input.homeId)) > 0) {
        return refuse('CONFLICT', 'The home still has active devices.');
      }
      await unplaceDevices(services, caller, { homeId: input.homeId });
      const deleted = await store.records.deleteHome(tenantId, input.homeId);
      return deleted ? done({ body: null }) : notFound('home');
    });
  },
});

export const createRoom = operation({
  name: 'createRoom',
  summary: 'Create a room in a home',
  input: z.strictObject({ homeId: idOf('home'), name: displayName }),
  output: created,
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  auditSubject: (_, { id }) => `room:${id}`,
  refuses: ['NOT_FOUND', 'QUOTA_REACHED'],
  example: { input: { name: 'Kitchen' }, output: createdBody(ROOM.id).body },
  needs: ['actors', 'clock', 'locks', 'newId', 'settings', 'store'],
  async run(services, { input: { homeId, name }, caller, idempotent }) {
    const { clock, newId } = services;
    const { records } = services.store;
    const tenantId = tenantOf(caller);
    const insert = async () => {
      const room = { id: newId(), tenantId, homeId, name, createdAt: clock.now() };
      const answer = createdBody(room.id);
      await records.insertRoom(room, idempotent?.toRow(answer));
      return done(answer);
    };
    return withPlacementLock(services, tenantId, async () => {
      if ((await records.home(tenantId, homeId)) === null) return notFound('home');
      return withinQuota(services, tenantId, 'home_rooms', () => records.countRooms(tenantId, homeId), insert);
    });
  },
});

export const listRooms = operation({
  name: 'listRooms',
  summary: 'List the rooms of a home, newest first',
  input: z.strictObject({ homeId: idOf('home'), ...paging }),
  output: z.object({ rooms: z.array(roomRecord), count: listCount, next_cursor: nextCursor }),
  role: 'viewer',
  scope: 'read:homes',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  example: { output: { rooms: [ROOM], count: 1, next_cursor: null } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const tenantId = tenantOf(caller);
    const listing = { route: 'rooms', filters: { home_id: input.homeId } };
    const start = startOf(listing, input.cursor);
    if (!start.ok) return start;
    const places = await reachedPlaces(store, caller);
    if (!seesHome(places, input.homeId)) return notFound('home');
    if ((await store.records.home(tenantId, input.homeId)) === null) return notFound('home');
    const roomIds = places?.wholeHomeIds.has(input.homeId) === false ? [...places.roomIds] : null;
    const page = await store.records.rooms(tenantId, input.homeId, input.limit, start.value, roomIds);
    const rooms = page.items.map(roomBody);
    return done({
      body: { rooms, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

export const getRoom = operation({
  name: 'getRoom',
  summary: 'Show a room',
  input: z.strictObject({ homeId: idOf('home'), roomId: idOf('room') }),
  output: z.object({ room: roomRecord }),
  role: 'viewer',
  scope: 'read:homes',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  example: { output: { room: ROOM } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const found = await store.records.room(tenantOf(caller), input.roomId);
    if (found?.homeId !== input.homeId) return notFound('room');
    return seesRoom(await reachedPlaces(store, caller), found)
      ? done({ body: { room: roomBody(found) } })
      : notFound('room');
  },
});

export const updateRoom = operation({
  name: 'updateRoom',
  summary: 'Rename a room',
  input: z.strictObject({ homeId: idOf('home'), roomId: idOf('room'), name: displayName.optional() }),
  output: z.object({ room: roomRecord }),
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  refuses: ['NOT_FOUND'],
  example: { input: { name: 'Kitchen' }, output: { room: ROOM } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const { homeId, roomId, name } = input;
    const changes = { ...(name !== undefined && { name }) };
    const updated = await store.records.updateRoom(tenantOf(caller), homeId, roomId, changes);
    return updated === null ? notFound('room') : done({ body: { room: roomBody(updated) } });
  },
});

export const deleteRoom = operation({
  name: 'deleteRoom',
  summary: 'Delete a room; its devices stay in the home',
  input: z.strictObject({ homeId: idOf('home'), roomId: idOf('room') }),
  output: noContent,
  role: 'admin',
  scope: 'write:homes',
  changes: true,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'clock', 'locks', 'store'],
  async run(services, { input, caller }) {
    const { store } = services;
    const tenantId = tenantOf(caller);
    return withExclusivePlacementLock(services, tenantId, async () => {
      const found = await store.records.room(tenantId, input.roomId);
      if (found?.homeId !== input.homeId) return notFound('room');
      await unplaceDevices(services, caller, { roomId: input.roomId });
      const deleted = await store.records.deleteRoom(tenantId, input.homeId, input.roomId);
      return deleted ? done({ body: null }) : notFound('room');
    });
  },
});
