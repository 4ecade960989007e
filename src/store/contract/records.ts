import type { Position } from '../../domain/cursor.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page } from './page.ts';

export interface Home {
  id: Uuid;
  tenantId: Uuid;
  name: string;
  timezone: string | null;
  createdAt: EpochMs;
}
export interface Room {
  id: Uuid;
  tenantId: Uuid;
  homeId: Uuid;
  name: string;
  createdAt: EpochMs;
}
export interface Group {
  tenantId: Uuid;
  slug: string;
  name: string;
  description: string | null;
  deviceIds: Uuid[];
  createdAt: EpochMs;
}

/** Rooms by their ids, and all rooms of some homes. */
export interface NamedRooms {
  roomIds: readonly Uuid[];
  wholeHomeIds: readonly Uuid[];
}

/** Plain records. A write takes the idempotency row that is committed with it. */
export interface RecordStore {
  insertHome(home: Home, idempotency?: IdempotencyRow | null): Promise<void>;
  updateHome(tenantId: Uuid, id: Uuid, changes: { name?: string; timezone?: string | null }): Promise<Home | null>;
  /** False if the home does not exist. The caller moves its devices out first. */
  deleteHome(tenantId: Uuid, id: Uuid): Promise<boolean>;
  home(tenantId: Uuid, id: Uuid): Promise<Home | null>;
  /** Only those with these ids, unless `ids` is null. */
  homes(tenantId: Uuid, limit: number, after?: Position, ids?: readonly Uuid[] | null): Promise<Page<Home>>;
  countHomes(tenantId: Uuid): Promise<number>;
  /** The tenant's homes among these ids, in any order. */
  findHomes(tenantId: Uuid, ids: readonly Uuid[]): Promise<Home[]>;
  insertRoom(room: Room, idempotency?: IdempotencyRow | null): Promise<void>;
  updateRoom(tenantId: Uuid, homeId: Uuid, id: Uuid, changes: { name?: string }): Promise<Room | null>;
  deleteRoom(tenantId: Uuid, homeId: Uuid, id: Uuid): Promise<boolean>;
  room(tenantId: Uuid, id: Uuid): Promise<Room | null>;
  rooms(
    tenantId: Uuid,
    homeId: Uuid,
    limit: number,
    after?: Position,
    ids?: readonly Uuid[] | null,
  ): Promise<Page<Room>>;
  countRooms(tenantId: Uuid, homeId: Uuid): Promise<number>;
  /** The tenant's rooms among these ids, in any order. */
  findRooms(tenantId: Uuid, ids: readonly Uuid[]): Promise<Room[]>;
  /** The newest rooms of each home, newest first; only rooms that are named or whose home is, unless `only` is null. */
  roomsOf(tenantId: Uuid, homeIds: readonly Uuid[], each: number, only?: NamedRooms | null): Promise<Room[]>;
  /** False if the slug is taken. */
  insertGroup(group: Group, idempotency?: IdempotencyRow | null): Promise<boolean>;
  joinGroup(
    tenantId: Uuid,
    slug: string,
    deviceIds: readonly Uuid[],
    idempotency?: IdempotencyRow | null,
  ): Promise<Group | null>;
  leaveGroup(tenantId: Uuid, slug: string, deviceId: Uuid): Promise<boolean>;
  updateGroup(
    tenantId: Uuid,
    slug: string,
    changes: { name?: string; description?: string | null },
  ): Promise<Group | null>;
  deleteGroup(tenantId: Uuid, slug: string): Promise<boolean>;
  group(tenantId: Uuid, slug: string): Promise<Group | null>;
  groups(tenantId: Uuid, limit: number, after?: Position, slugs?: readonly string[]): Promise<Page<Group>>;
  countGroups(tenantId: Uuid): Promise<number>;
}
