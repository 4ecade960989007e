import type { Home, RecordStore, Room } from '../../../src/store/contract.ts';
import { bigint, type Columns, nullable, references, refuse, rowOf, text, uuid } from './columns.ts';
import { groupStore } from './groups.ts';
import { putIdempotency } from './idempotency.ts';
import { newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const homeColumns: Columns<Home> = {
  ...{ id: uuid, tenantId: uuid, name: text, timezone: nullable(text), createdAt: bigint },
};
const roomColumns: Columns<Room> = { id: uuid, tenantId: uuid, homeId: uuid, name: text, createdAt: bigint };

const positionOf = <T extends Home | Room>(row: T): T => row;

type HomeStore = Pick<
  RecordStore,
  'insertHome' | 'updateHome' | 'deleteHome' | 'home' | 'homes' | 'countHomes' | 'findHomes'
>;

const homeStore = (session: Session): HomeStore => ({
  insertHome: (home, idempotency) =>
    session.write('records.insertHome', [home, idempotency], (tables, home, idempotency) => {
      const row = rowOf(homeColumns, home);
      if (tables.homes.has(row.id)) refuse('23505', 'duplicate key value violates unique constraint "homes_pkey"');
      tables.homes.set(row.id, row);
      putIdempotency(tables, idempotency);
    }),

  updateHome: (tenantId, id, changes) =>
    session.write('records.updateHome', [tenantId, id, changes], (tables, tenantId, id, { name, timezone }) => {
      const home = tables.homes.get(id);
      if (home?.tenantId !== tenantId) return null;
      const changed = { ...home, name: name ?? home.name, timezone: timezone === undefined ? home.timezone : timezone };
      const row = rowOf(homeColumns, changed);
      tables.homes.set(id, row);
      return row;
    }),

  deleteHome: (tenantId, id) =>
    session.write('records.deleteHome', [tenantId, id], (tables, tenantId, id) => {
      if (tables.homes.get(id)?.tenantId !== tenantId) return false;
      for (const room of tables.rooms.where(({ homeId }) => homeId === id)) tables.rooms.delete(room.id);
      return tables.homes.delete(id);
    }),

  home: (tenantId, id) =>
    session.read('records.home', [tenantId, id], (tables, tenantId, id) => {
      const home = tables.homes.get(id);
      return home?.tenantId === tenantId ? home : null;
    }),

  homes: (tenantId, limit, after, ids) =>
    session.read('records.homes', [tenantId, limit, after, ids], (tables, tenantId, limit, after, ids = null) =>
      newestFirst(
        tables.homes.where((home) => home.tenantId === tenantId && (ids === null || ids.includes(home.id))),
        positionOf,
        limit,
        after,
      ),
    ),

  countHomes: (tenantId) =>
    session.read(
      'records.countHomes',
      [tenantId],
      (tables, tenantId) => tables.homes.where((home) => home.tenantId === tenantId).length,
    ),

  findHomes: (tenantId, ids) =>
    session.read('records.findHomes', [tenantId, ids], (tables, tenantId, ids) =>
      tables.homes.where((home) => home.tenantId === tenantId && ids.includes(home.id)),
    ),
});

type RoomStore = Pick<
  RecordStore,
  'insertRoom' | 'updateRoom' | 'deleteRoom' | 'room' | 'rooms' | 'countRooms' | 'findRooms' | 'roomsOf'
>;

const roomStore = (session: Session): RoomStore => ({
  insertRoom: (room, idempotency) =>
    session.write('records.insertRoom', [room, idempotency], (tables, room, idempotency) => {
      const row = rowOf(roomColumns, room);
      if (tables.rooms.has(row.id)) refuse('23505', 'duplicate key value violates unique constraint "rooms_pkey"');
      tables.rooms.set(row.id, row);
      putIdempotency(tables, idempotency);
      references(tables.homes.has(row.homeId), 'rooms_home_id_fkey');
    }),

  updateRoom: (tenantId, homeId, id, changes) =>
    session.write('records.updateRoom', [tenantId, homeId, id, changes], (tables, tenantId, homeId, id, { name }) => {
      const room = tables.rooms.get(id);
      if (room?.tenantId !== tenantId || room.homeId !== homeId) return null;
      const row = rowOf(roomColumns, { ...room, name: name ?? room.name });
      tables.rooms.set(id, row);
      return row;
    }),

  deleteRoom: (tenantId, homeId, id) =>
    session.write('records.deleteRoom', [tenantId, homeId, id], (tables, tenantId, homeId, id) => {
      const room = tables.rooms.get(id);
      return room?.tenantId === tenantId && room.homeId === homeId && tables.rooms.delete(id);
    }),

  room: (tenantId, id) =>
    session.read('records.room', [tenantId, id], (tables, tenantId, id) => {
      const room = tables.rooms.get(id);
      return room?.tenantId === tenantId ? room : null;
    }),

  rooms: (tenantId, homeId, limit, after, ids) =>
    session.read(
      'records.rooms',
      [tenantId, homeId, limit, after, ids],
      (tables, tenantId, homeId, limit, after, ids = null) =>
        newestFirst(
          tables.rooms.where(
            (room) => room.tenantId === tenantId && room.homeId === homeId && (ids === null || ids.includes(room.id)),
          ),
          positionOf,
          limit,
          after,
        ),
    ),

  countRooms: (tenantId, homeId) =>
    session.read(
      'records.countRooms',
      [tenantId, homeId],
      (tables, tenantId, homeId) =>
        tables.rooms.where((room) => room.tenantId === tenantId && room.homeId === homeId).length,
    ),

  findRooms: (tenantId, ids) =>
    session.read('records.findRooms', [tenantId, ids], (tables, tenantId, ids) =>
      tables.rooms.where((room) => room.tenantId === tenantId && ids.includes(room.id)),
    ),

  roomsOf: (tenantId, homeIds, each, only) =>
    session.read('records.roomsOf', [tenantId, homeIds, each, only], (tables, tenantId, homeIds, each, only = null) => {
      const rooms = homeIds.flatMap((homeId) => {
        const isAmong = (room: Room) =>
          only === null || only.roomIds.includes(room.id) || only.wholeHomeIds.includes(room.homeId);
        const own = tables.rooms.where((room) => room.tenantId === tenantId && room.homeId === homeId && isAmong(room));
        return newestFirst(own, positionOf, each).items;
      });
      return newestFirst(rooms, positionOf, rooms.length).items;
    }),
});

export const recordStore = (session: Session): RecordStore => ({
  ...homeStore(session),
  ...roomStore(session),
  ...groupStore(session),
});
