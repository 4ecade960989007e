import { namesPlaces } from '../../domain/key-restriction.ts';
import { shardInSql } from '../../domain/shards.ts';
import type { EpochMs, JsonObject, Uuid } from '../../domain/values.ts';
import type { DeviceFilter, DeviceRow, DeviceStore, Manifest } from '../contract.ts';
import { contextField } from './actors.ts';
import type { CoalescedReads } from './coalesced-reads.ts';
import { countRows } from './count-rows.ts';
import { type Database, idArray, type SqlValue } from './database.ts';
import type { DeviceCounts } from './device-counts.ts';
import { keyHistoryOf, validKeys } from './device-keys.ts';
import { containing, readTags, taggedDevices } from './device-tags.ts';
import { descendingStart, pageOf } from './keyset-pagination.ts';
import type { LastActivities, LastActivity } from './last-activity.ts';
import { connectionsOf, flushPresence, lastSeen } from './presence.ts';
import { type RowColumns, rowsOfColumns, selectColumns } from './rows-as-columns.ts';
import { inShards } from './shard-condition.ts';

/** Select list of a `DeviceRow` without its last activity, with the names of its members. */
const members = `d.id, d.context->>'name' as "name", d.device_type as "deviceType", d.category, d.home_id as "homeId",
  d.room_id as "roomId", d.firmware, d.revoked, d.online, d.created_at as "createdAt", coalesce(d.context->'tags', '[]') as tags`;
const memberNames: readonly (keyof DeviceRow)[] = [
  ...(['id', 'name', 'deviceType', 'category', 'homeId', 'roomId', 'firmware', 'revoked', 'online'] as const),
  ...(['createdAt', 'tags'] as const),
];
const ofTenant = 'where d.tenant_id = $1 and not d.deleted';
/** Whole rows. */
const listed = `select ${members}, nullif(p.last_seen, 0) as "lastSeen", p.battery
  from devices d left join presence p on p.device_id = d.id ${ofTenant}`;

const filterColumns: Readonly<Record<Exclude<keyof DeviceFilter, 'ids' | 'tags' | 'text'>, string>> = {
  homeId: 'home_id',
  roomId: 'room_id',
  deviceType: 'device_type',
  category: 'category',
  online: 'online',
  revoked: 'revoked',
};

/** The given filters as conditions on the parameters from `$first` on. */
function conditions(filter: DeviceFilter, first: number): { text: string; name: string; values: SqlValue[] } {
  let text = '';
  let name = '';
  const values: SqlValue[] = [];
  for (const [key, column] of Object.entries(filterColumns) as [keyof typeof filterColumns, string][]) {
    const value = filter[key];
    if (value === undefined) continue;
    name += `_${column}`;
    if (typeof value === 'boolean') {
      // A literal, as partial indexes require it.
      text += ` and ${value ? '' : 'not '}d.${column}`;
      name += value ? '' : '_not';
    } else {
      text += ` and d.${column} = $${first + values.length}`;
      values.push(value);
    }
  }
  if (filter.ids !== undefined) {
    text += ` and d.id = any($${first + values.length}::uuid[])`;
    name += '_among';
    values.push(idArray(filter.ids));
  }
  if (filter.text !== undefined) {
    text += containing(`$${first + values.length}`);
    name += '_containing';
    values.push(filter.text);
  }
  return { text, name, values };
}

interface ListQuery {
  page: string;
  /** Of the filters, for the name of the statement. */
  name: string;
  /** From `$5` on. */
  values: SqlValue[];
}

function listQuery(filter: DeviceFilter): ListQuery {
  const { text, name, values } = conditions(filter, 5);
  const page = `select ${members} from devices d ${ofTenant} and (d.created_at, d.id) < ($2, $3)${text} order by d.created_at desc, d.id desc limit $4`;
  return { page, name, values };
}

function taggedListQuery(filter: DeviceFilter, tags: readonly string[]): ListQuery {
  const { text, name, values } = conditions(filter, 6);
  const page = `select ${members} from ${taggedDevices('$5')} ${ofTenant} and (t.created_at, t.device_id) < ($2, $3)${text}
    order by t.created_at desc, t.device_id desc limit $4`;
  return { page, name: `_tagged${name}`, values: [JSON.stringify(tags), ...values] };
}

interface ManifestRow {
  device_id: Uuid;
  tenant_id: Uuid;
  category: string | null;
  version: number;
  own: boolean;
  capabilities: Manifest['capabilities'];
  properties: Manifest['properties'] | null;
  removed: Manifest['removed'] | null;
}

interface StateRow {
  id: Uuid;
  state: JsonObject;
  state_version: number;
  reported_at: EpochMs | null;
}

const ACTIVATION_LOCK = 7_421_005;

async function withActivationLock<T>(database: Database, work: () => Promise<T>): Promise<T> {
  // One process has an embedded database, with one connection.
  if (database.embedded) return work();
  let done: { value: T } | null = null;
  const locked = database.transaction(async (query) => {
    await query('select pg_advisory_xact_lock($1)', [ACTIVATION_LOCK]);
    done = { value: await work() };
  });
  // The work has its own transactions: it does not matter to it how the one of the lock ends.
  await locked.catch((error: unknown) => {
    if (done === null) throw error;
  });
  return (done as unknown as { value: T }).value;
}

interface ReadCaches {
  pages: CoalescedReads;
  counts: DeviceCounts;
  activities: LastActivities;
}

export function deviceStore(database: Database, { pages, counts, activities }: ReadCaches): DeviceStore {
  const ids = async (
    name: string,
    condition: string,
    values: readonly SqlValue[],
    tenantId: Uuid | null,
  ): Promise<Uuid[]> => {
    const text = `select id from devices where ${condition}`;
    const statement = { name, text, values, ...(tenantId !== null && { scope: { tenantId } }) };
    return (await database.read<{ id: Uuid }>(statement)).map((row) => row.id);
  };
  const count = (
    name: string,
    condition: string,
    values: readonly SqlValue[],
    tenantId: Uuid | null,
  ): Promise<number> => countRows(database, name, `devices where ${condition}`, values, tenantId);

  return {
    async list(tenantId, filter, limit, after) {
      const { page, name, values } =
        filter.tags === undefined ? listQuery(filter) : taggedListQuery(filter, filter.tags);
      const statement = {
        name: `devices_list${name}`,
        scope: { tenantId },
        text: selectColumns(memberNames, page),
        values: [tenantId, ...descendingStart(after), limit + 1, ...values],
      };
      const key = JSON.stringify([statement.name, ...statement.values]);
      const rows = await pages.read(key, async () => {
        const [found] = await database.read<{ columns: RowColumns<Omit<DeviceRow, keyof LastActivity>> }>(statement);
        const { columns } = found ?? {};
        if (columns?.id == null) return [];
        const active = await activities.of(columns.id, (missing) => lastSeen(database, missing));
        return rowsOfColumns<DeviceRow>({
          ...columns,
          lastSeen: active.map(({ lastSeen: at }) => at),
          battery: active.map(({ battery }) => battery),
        });
      });
      return pageOf(rows, limit, ({ createdAt, id }) => ({ createdAt, id }));
    },

    async inPlaces(tenantId, place, wanted, each, among) {
      const inPlace = `${listed} and d.${filterColumns[place]} = place ${among === undefined ? '' : 'and d.id = any($4::uuid[])'}`;
      return database.read<DeviceRow>({
        name: `devices_in_${filterColumns[place]}${among === undefined ? '' : '_among'}`,
        scope: { tenantId },
        text: `select found.* from unnest($2::uuid[]) place cross join lateral (
            ${inPlace} order by d.created_at desc, d.id desc limit $3) found
          order by found."createdAt" desc, found.id desc`,
        values: [tenantId, idArray(wanted), each, ...(among === undefined ? [] : [idArray(among)])],
      });
    },

    async find(tenantId, wanted) {
      if (wanted.length === 0) return [];
      return database.read<DeviceRow>({
        name: 'devices_find',
        scope: { tenantId },
        text: `${listed} and d.id = any($2::uuid[])`,
        values: [tenantId, idArray(wanted)],
      });
    },

    tags: (tenantId, limit, after, among) => readTags(database, tenantId, limit, after, among),

    inRoom: (tenantId, roomId, category) =>
      ids(
        'devices_in_room',
        `room_id = $2 and tenant_id = $1 and not deleted and ($3::text is null or category = $3)
         order by revoked, created_at, id`,
        [tenantId, roomId, category ?? null],
        tenantId,
      ),

    count: (tenantId) =>
      counts.of(tenantId, () => count('devices_count', 'tenant_id = $1 and not deleted', [tenantId], tenantId)),
    async within(tenantId, restriction) {
      const { homes = [], rooms = [], devices = [], groups = [], categories = null } = restriction;
      return database.read<Pick<DeviceRow, 'id' | 'homeId' | 'roomId'>>({
        name: 'devices_within',
        scope: { tenantId },
        text: `select d.id, d.home_id as "homeId", d.room_id as "roomId" from devices d
          where d.tenant_id = $1 and not d.deleted
            and (not $2 or d.home_id = any($3::uuid[]) or d.room_id = any($4::uuid[]) or d.id = any($5::uuid[])
              or exists (select from group_members m where m.tenant_id = $1 and m.device_id = d.id
                and m.slug = any(array(select jsonb_array_elements_text($6::jsonb)))))
            and ($7::jsonb is null or d.category = any(array(select jsonb_array_elements_text($7::jsonb))))`,
        values: [
          ...[tenantId, namesPlaces(restriction), idArray(homes), idArray(rooms), idArray(devices)],
          ...[JSON.stringify(groups), categories && JSON.stringify(categories)],
        ],
      });
    },
    withActivationLock: (work) => withActivationLock(database, work),
    countActive: () => count('devices_active', 'not revoked and not deleted', [], null),
    countActiveInHome: (tenantId, homeId) =>
      count(
        'devices_in_home',
        'home_id = $2 and tenant_id = $1 and not revoked and not deleted',
        [tenantId, homeId],
        tenantId,
      ),

    placedIn: (tenantId, place) =>
      'homeId' in place
        ? ids(
            'devices_placed_home',
            'home_id = $2 and tenant_id = $1 and not deleted',
            [tenantId, place.homeId],
            tenantId,
          )
        : ids(
            'devices_placed_room',
            'room_id = $2 and tenant_id = $1 and not deleted',
            [tenantId, place.roomId],
            tenantId,
          ),

    validKeys: (wanted) => validKeys(database, wanted),
    keyHistory: (deviceId) => keyHistoryOf(database, deviceId),

    async manifests(wanted) {
      if (wanted.length === 0) return [];
      const rows = await database.read<ManifestRow>({
        name: 'manifests_of',
        text: `select device_id, tenant_id, category, version, own, capabilities, properties, removed
            from manifests
          where device_id = any($1::uuid[])`,
        values: [idArray(wanted)],
      });
      return rows.map(({ device_id: deviceId, tenant_id: tenantId, properties, removed, ...rest }) => ({
        ...{ ...rest, deviceId, tenantId },
        ...(properties && { properties }),
        ...(removed && { removed }),
      }));
    },

    flushPresence: (rows) => activities.during(rows, () => flushPresence(database, rows)),
    lastSeen: (wanted) => lastSeen(database, wanted),
    connections: (wanted) => connectionsOf(database, wanted),
    online(shards) {
      const { suffix, condition, values } = inShards(shards, shardInSql('tenant_id'), 1);
      return ids(`devices_online${suffix}`, `online and not deleted${condition}`, values, null);
    },

    async states(tenantId, wanted) {
      const rows = await database.read<StateRow>({
        name: wanted ? 'states_of' : 'states_all',
        scope: { tenantId },
        text: `select id, ${contextField('state')} as state, (${contextField('stateVersion')} #>> '{}')::bigint as state_version,
            (${contextField('reportedAt')} #>> '{}')::bigint as reported_at
          from devices where tenant_id = $1 and not deleted${wanted ? ' and id = any($2::uuid[])' : ''}`,
        values: wanted ? [tenantId, idArray(wanted)] : [tenantId],
      });
      return rows.map((row) => ({
        deviceId: row.id,
        state: row.state,
        stateVersion: row.state_version,
        reportedAt: row.reported_at,
      }));
    },
  };
}
