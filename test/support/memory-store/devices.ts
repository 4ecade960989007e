import { reachesDevice } from '../../../src/domain/key-restriction.ts';
import type { EpochMs, JsonObject, Uuid } from '../../../src/domain/values.ts';
import { MAX_TAG_COUNTED } from '../../../src/store/contract/devices.ts';
import type { DeviceFilter, DeviceRow, DeviceStore, StoredDeviceKey } from '../../../src/store/contract.ts';
import { pageOf } from '../../../src/store/postgres/keyset-pagination.ts';
import { isDeleted, isInShards } from './actors.ts';
import { actorsOf, oldestIds } from './commands.ts';
import { tagKey } from './commit.ts';
import type { ActorRow, KeyRow, Tables } from './database.ts';
import { newestFirst } from './keyset-pagination.ts';
import { flushPresence } from './presence.ts';
import type { Session } from './session.ts';

const devicesOf = (tables: Tables, matches: (row: ActorRow) => boolean): ActorRow[] =>
  actorsOf(tables, 'device', (row) => !isDeleted(row) && matches(row));

const isActive = ({ columns }: ActorRow): boolean => columns.revoked === false;

function listed(tables: Tables, { ref, columns, context }: ActorRow): DeviceRow {
  const presence = tables.presence.get(ref.id);
  const text = (name: string): string | null => (columns[name] ?? null) as string | null;
  return {
    id: ref.id,
    name: (context.name ?? null) as string | null,
    deviceType: columns.device_type as string,
    category: text('category'),
    homeId: text('home_id'),
    roomId: text('room_id'),
    firmware: text('firmware'),
    revoked: columns.revoked === true,
    online: columns.online === true,
    lastSeen: presence?.lastSeen || null,
    battery: presence?.battery ?? null,
    createdAt: columns.created_at as EpochMs,
    tags: (context.tags ?? []) as string[],
  };
}

const filterColumns = {
  homeId: 'home_id',
  roomId: 'room_id',
  deviceType: 'device_type',
  category: 'category',
  online: 'online',
  revoked: 'revoked',
} satisfies Readonly<Record<Exclude<keyof DeviceFilter, 'ids' | 'tags' | 'text'>, string>>;

const fitsFilter = (tables: Tables, row: ActorRow, filter: DeviceFilter): boolean =>
  (filter.ids === undefined || filter.ids.includes(row.ref.id)) &&
  (filter.tags ?? []).every((tag) => tables.deviceTags.has(tagKey(row.tenantId, tag, row.ref.id))) &&
  (filter.text === undefined || contains(listed(tables, row), filter.text.toLowerCase())) &&
  (Object.entries(filterColumns) as [keyof typeof filterColumns, string][]).every(
    ([name, column]) => filter[name] === undefined || row.columns[column] === filter[name],
  );

const contains = ({ id, name, deviceType, tags }: DeviceRow, text: string): boolean =>
  id.startsWith(text) || [name ?? '', deviceType, ...tags].some((one) => one.toLowerCase().includes(text));

const storedKey = ({ endedAs, ...key }: KeyRow): StoredDeviceKey => ({
  ...key,
  status: endedAs ?? (key.graceUntil === null ? 'active' : 'grace'),
});

const newestKeys = (keys: readonly KeyRow[] | undefined): StoredDeviceKey[] =>
  [...(keys ?? [])].sort((a, b) => b.keyVersion - a.keyVersion).map(storedKey);

/** Counts, and ids by placement. */
const placementStore = (
  session: Session,
): Pick<
  DeviceStore,
  'inRoom' | 'count' | 'within' | 'countActive' | 'countActiveInHome' | 'placedIn' | 'online' | 'withActivationLock'
> => ({
  inRoom: (tenantId, roomId, category) =>
    session.read('devices.inRoom', [tenantId, roomId, category], (tables, tenantId, roomId, category) => {
      const placed = devicesOf(
        tables,
        (row) =>
          row.tenantId === tenantId &&
          row.columns.room_id === roomId &&
          (category === undefined || row.columns.category === category),
      );
      return [...oldestIds(placed.filter(isActive)), ...oldestIds(placed.filter((row) => !isActive(row)))];
    }),
  count: (tenantId) =>
    session.read(
      'devices.count',
      [tenantId],
      (tables, tenantId) => devicesOf(tables, (row) => row.tenantId === tenantId).length,
    ),
  within: (tenantId, restriction) =>
    session.read('devices.within', [tenantId, restriction], (tables, tenantId, restriction) => {
      const groups = tables.groups.where(
        (group) => group.tenantId === tenantId && restriction.groups?.includes(group.slug) === true,
      );
      return devicesOf(tables, (row) => row.tenantId === tenantId)
        .map((row) => listed(tables, row))
        .filter((device) =>
          reachesDevice(
            restriction,
            device,
            groups.some(({ deviceIds }) => deviceIds.includes(device.id)),
          ),
        )
        .map(({ id, homeId, roomId }) => ({ id, homeId, roomId }));
    }),
  // One process has the store.
  withActivationLock: (work) => work(),
  countActive: () => session.read('devices.countActive', [], (tables) => devicesOf(tables, isActive).length),
  countActiveInHome: (tenantId, homeId) =>
    session.read(
      'devices.activeInHome',
      [tenantId, homeId],
      (tables, tenantId, homeId) =>
        devicesOf(tables, (row) => row.tenantId === tenantId && row.columns.home_id === homeId && isActive(row)).length,
    ),
  placedIn: (tenantId, place) =>
    session.read('devices.placedIn', [tenantId, place], (tables, tenantId, place) =>
      devicesOf(
        tables,
        ({ tenantId: of, columns }) =>
          of === tenantId && ('homeId' in place ? columns.home_id === place.homeId : columns.room_id === place.roomId),
      ).map(({ ref }) => ref.id),
    ),
  online: (shards) =>
    session.read('devices.online', [shards], (tables, shards) =>
      devicesOf(tables, ({ columns, tenantId }) => columns.online === true && isInShards(shards, tenantId)).map(
        ({ ref }) => ref.id,
      ),
    ),
});

const oneOfThem = (ids: readonly Uuid[] | undefined): ((row: ActorRow) => boolean) => {
  if (ids === undefined) return () => true;
  const wanted = new Set(ids);
  return ({ ref }) => wanted.has(ref.id);
};

export const deviceStore = (session: Session): DeviceStore => ({
  ...placementStore(session),

  list: (tenantId, filter, limit, after) =>
    session.read('devices.list', [tenantId, filter, limit, after], (tables, tenantId, filter, limit, after) => {
      const rows = devicesOf(tables, (row) => row.tenantId === tenantId && fitsFilter(tables, row, filter));
      return newestFirst(
        rows.map((row) => listed(tables, row)),
        (row) => row,
        limit,
        after,
      );
    }),

  inPlaces: (tenantId, place, ids, each, among) =>
    session.read(
      'devices.inPlaces',
      [tenantId, place, ids, each, among],
      (tables, tenantId, place, ids, each, among) => {
        const wanted = oneOfThem(among);
        const found = ids.flatMap((id) => {
          const rows = devicesOf(
            tables,
            (row) => row.tenantId === tenantId && row.columns[filterColumns[place]] === id && wanted(row),
          );
          return newestFirst(
            rows.map((row) => listed(tables, row)),
            (row) => row,
            each,
          ).items;
        });
        return newestFirst(found, (row) => row, found.length).items;
      },
    ),

  find: (tenantId, ids) =>
    session.read('devices.find', [tenantId, ids], (tables, tenantId, ids) => {
      const wanted = oneOfThem(ids);
      return devicesOf(tables, (row) => row.tenantId === tenantId && wanted(row)).map((row) => listed(tables, row));
    }),

  tags: (tenantId, limit, after, among) =>
    session.read('devices.tags', [tenantId, limit, after, among], (tables, tenantId, limit, after, among) => {
      const counts = new Map<string, number>();
      const tags =
        among === undefined
          ? tables.deviceTags.where((entry) => entry.tenantId === tenantId).map(({ tag }) => tag)
          : devicesOf(tables, (row) => row.tenantId === tenantId && among.includes(row.ref.id)).flatMap(
              (row) => listed(tables, row).tags,
            );
      for (const tag of tags) if (tag > (after?.id ?? '')) counts.set(tag, (counts.get(tag) ?? 0) + 1);
      const rows = [...counts]
        .sort(([one], [other]) => (one < other ? -1 : 1))
        .map(([tag, devices]) => ({ tag, devices }));
      const shown = rows.map(({ tag, devices }) => ({ tag, devices: devices > MAX_TAG_COUNTED ? null : devices }));
      const page = pageOf(shown.slice(0, limit + 1), limit, ({ tag }) => ({ createdAt: 0, id: tag }));
      const isWhole = after === undefined && page.next === null;
      return { ...page, count: async () => (isWhole ? page.items.length : null) };
    }),

  validKeys: (ids) =>
    session.read('devices.validKeys', [ids], (tables, ids) => {
      const live = new Map<Uuid, StoredDeviceKey[]>();
      for (const id of ids) {
        const keys = newestKeys(tables.deviceKeys.get(id)).filter(({ endedAt }) => endedAt === null);
        if (keys.length > 0) live.set(id, keys);
      }
      return live;
    }),

  keyHistory: (deviceId) =>
    session.read('devices.keyHistory', [deviceId], (tables, deviceId) => newestKeys(tables.deviceKeys.get(deviceId))),

  manifests: (ids) =>
    session.read('devices.manifests', [ids], (tables, ids) =>
      [...new Set(ids)].flatMap((id) => tables.manifests.get(id) ?? []),
    ),

  connections: (ids) =>
    session.read('devices.connections', [ids], (tables, ids) => {
      const known = ids.map((id) => [id, tables.deviceConnections.get(id)] as const);
      return new Map(known.flatMap(([id, events]) => (events === undefined ? [] : [[id, events]])));
    }),

  flushPresence: (rows) => session.write('devices.flushPresence', [rows], flushPresence),

  lastSeen: (ids) =>
    session.read('devices.lastSeen', [ids], (tables, ids) => {
      const rows = ids.flatMap((id) => tables.presence.get(id) ?? []);
      return new Map(
        rows.map(({ deviceId, lastSeen, ...reported }) => [
          deviceId,
          { lastSeen: lastSeen === 0 ? null : lastSeen, ...reported },
        ]),
      );
    }),

  states: (tenantId, ids) =>
    session.read('devices.states', [tenantId, ids], (tables, tenantId, ids) => {
      const wanted = oneOfThem(ids);
      return devicesOf(tables, (row) => row.tenantId === tenantId && wanted(row)).map(({ ref, context }) => ({
        deviceId: ref.id,
        state: (context.state ?? null) as JsonObject,
        stateVersion: (context.stateVersion ?? null) as number,
        reportedAt: (context.reportedAt ?? null) as EpochMs | null,
      }));
    }),
});
