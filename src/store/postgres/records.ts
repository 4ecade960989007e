import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Home, RecordStore, Room } from '../contract.ts';
import { countRows } from './count-rows.ts';
import { type Database, idArray } from './database.ts';
import { groupStore } from './groups.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';

interface HomeRow {
  id: Uuid;
  tenant_id: Uuid;
  name: string;
  timezone: string | null;
  created_at: EpochMs;
}

const homeColumns = 'id, tenant_id, name, timezone, created_at';
const homeOf = ({ tenant_id: tenantId, created_at: createdAt, ...rest }: HomeRow): Home => ({
  ...rest,
  tenantId,
  createdAt,
});

interface RoomRow {
  id: Uuid;
  tenant_id: Uuid;
  home_id: Uuid;
  name: string;
  created_at: EpochMs;
}

const roomColumns = 'id, tenant_id, home_id, name, created_at';
const roomOf = ({ tenant_id: tenantId, home_id: homeId, created_at: createdAt, ...rest }: RoomRow): Room => ({
  ...rest,
  tenantId,
  homeId,
  createdAt,
});

const position = ({ createdAt, id }: Pick<Home | Room, 'createdAt' | 'id'>) => ({ createdAt, id });

/** Homes and rooms; groups are in groups.ts. */
export const recordStore = (database: Database): RecordStore => ({
  ...groupStore(database),

  async insertHome(home, idempotency) {
    await database.write({
      name: 'home_insert',
      scope: idempotentScope(home.tenantId, idempotency),
      text: `with made as (insert into homes (${homeColumns}) values ($1, $2, $3, $4, $5) returning id), ${idempotencyCte(6, 'made')}
        select id from made`,
      values: [home.id, home.tenantId, home.name, home.timezone, home.createdAt, idempotencyParameter(idempotency)],
    });
  },

  async updateHome(tenantId, id, changes) {
    const [row] = await database.write<HomeRow>({
      name: 'home_update',
      scope: { tenantId },
      text: `update homes set name = coalesce($3, name), timezone = case when $4 then $5 else timezone end
        where id = $1 and tenant_id = $2 returning ${homeColumns}`,
      values: [id, tenantId, changes.name ?? null, changes.timezone !== undefined, changes.timezone ?? null],
    });
    return row ? homeOf(row) : null;
  },

  async deleteHome(tenantId, id) {
    const rows = await database.write({
      name: 'home_delete',
      scope: { tenantId },
      text: 'delete from homes where id = $1 and tenant_id = $2 returning id',
      values: [id, tenantId],
    });
    return rows.length > 0;
  },

  async home(tenantId, id) {
    const [row] = await database.read<HomeRow>({
      name: 'home',
      scope: { tenantId },
      text: `select ${homeColumns} from homes where id = $1 and tenant_id = $2`,
      values: [id, tenantId],
    });
    return row ? homeOf(row) : null;
  },

  async homes(tenantId, limit, after, ids = null) {
    const statement: ListStatement = {
      name: ids === null ? 'homes' : 'homes_among',
      scope: { tenantId },
      text: `select ${homeColumns} from homes where tenant_id = $1 and (created_at, id) < ($2, $3)
        ${ids === null ? '' : 'and id = any($5::uuid[])'} order by created_at desc, id desc limit $4`,
      values: (after, rows) => [tenantId, ...descendingStart(after), rows, ...(ids === null ? [] : [idArray(ids)])],
    };
    return readPage(database, statement, { after, limit, of: homeOf, position });
  },

  countHomes: (tenantId) => countRows(database, 'homes_count', 'homes where tenant_id = $1', [tenantId], tenantId),

  async findHomes(tenantId, ids) {
    const rows = await database.read<HomeRow>({
      name: 'homes_find',
      scope: { tenantId },
      text: `select ${homeColumns} from homes where tenant_id = $1 and id = any($2::uuid[])`,
      values: [tenantId, idArray(ids)],
    });
    return rows.map(homeOf);
  },

  async insertRoom(room, idempotency) {
    await database.write({
      name: 'room_insert',
      scope: idempotentScope(room.tenantId, idempotency),
      text: `with made as (insert into rooms (${roomColumns}) values ($1, $2, $3, $4, $5) returning id), ${idempotencyCte(6, 'made')}
        select id from made`,
      values: [room.id, room.tenantId, room.homeId, room.name, room.createdAt, idempotencyParameter(idempotency)],
    });
  },

  async updateRoom(tenantId, homeId, id, { name }) {
    const [row] = await database.write<RoomRow>({
      name: 'room_update',
      scope: { tenantId },
      text: `update rooms set name = coalesce($4, name) where id = $1 and tenant_id = $2 and home_id = $3
        returning ${roomColumns}`,
      values: [id, tenantId, homeId, name ?? null],
    });
    return row ? roomOf(row) : null;
  },

  async deleteRoom(tenantId, homeId, id) {
    const rows = await database.write({
      name: 'room_delete',
      scope: { tenantId },
      text: 'delete from rooms where id = $1 and tenant_id = $2 and home_id = $3 returning id',
      values: [id, tenantId, homeId],
    });
    return rows.length > 0;
  },

  countRooms: (tenantId, homeId) =>
    countRows(database, 'rooms_count', 'rooms where home_id = $2 and tenant_id = $1', [tenantId, homeId], tenantId),

  async room(tenantId, id) {
    const [row] = await database.read<RoomRow>({
      name: 'room',
      scope: { tenantId },
      text: `select ${roomColumns} from rooms where id = $1 and tenant_id = $2`,
      values: [id, tenantId],
    });
    return row ? roomOf(row) : null;
  },

  async rooms(tenantId, homeId, limit, after, ids = null) {
    const statement: ListStatement = {
      name: ids === null ? 'rooms' : 'rooms_among',
      scope: { tenantId },
      text: `select ${roomColumns} from rooms where home_id = $2 and tenant_id = $1 and (created_at, id) < ($3, $4)
        ${ids === null ? '' : 'and id = any($6::uuid[])'} order by created_at desc, id desc limit $5`,
      values: (after, rows) => [
        ...[tenantId, homeId, ...descendingStart(after), rows],
        ...(ids === null ? [] : [idArray(ids)]),
      ],
    };
    return readPage(database, statement, { after, limit, of: roomOf, position });
  },

  async findRooms(tenantId, ids) {
    const rows = await database.read<RoomRow>({
      name: 'rooms_find',
      scope: { tenantId },
      text: `select ${roomColumns} from rooms where tenant_id = $1 and id = any($2::uuid[])`,
      values: [tenantId, idArray(ids)],
    });
    return rows.map(roomOf);
  },

  async roomsOf(tenantId, homeIds, each, only = null) {
    const rows = await database.read<RoomRow>({
      name: only === null ? 'rooms_of' : 'rooms_of_among',
      scope: { tenantId },
      text: `select room.* from unnest($2::uuid[]) home cross join lateral (
          select ${roomColumns} from rooms where home_id = home and tenant_id = $1
          ${only === null ? '' : 'and (id = any($4::uuid[]) or home_id = any($5::uuid[]))'}
          order by created_at desc, id desc limit $3) room
        order by created_at desc, id desc`,
      values: [
        ...[tenantId, idArray(homeIds), each],
        ...(only === null ? [] : [idArray(only.roomIds), idArray(only.wholeHomeIds)]),
      ],
    });
    return rows.map(roomOf);
  },
});
