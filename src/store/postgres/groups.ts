import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Group, RecordStore } from '../contract.ts';
import { countRows } from './count-rows.ts';
import { type Database, idArray } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { type ListStatement, readPage } from './keyset-pagination.ts';

interface GroupRow {
  tenant_id: Uuid;
  slug: string;
  name: string;
  description: string | null;
  created_at: EpochMs;
  device_ids: Uuid[];
}

/** A deleted device is in no group, although its membership row remains. */
const select = `select g.tenant_id, g.slug, g.name, g.description, g.created_at, array(
    select m.device_id from group_members m join devices d on d.id = m.device_id and not d.deleted
    where m.tenant_id = g.tenant_id and m.slug = g.slug order by m.device_id) as device_ids
  from groups g`;

const groupOf = (row: GroupRow): Group => ({
  tenantId: row.tenant_id,
  slug: row.slug,
  name: row.name,
  description: row.description,
  deviceIds: row.device_ids,
  createdAt: row.created_at,
});

type GroupStore = Pick<
  RecordStore,
  'insertGroup' | 'joinGroup' | 'leaveGroup' | 'updateGroup' | 'deleteGroup' | 'group' | 'groups' | 'countGroups'
>;

/** Groups and their members; the slug identifies a group within its tenant. */
export function groupStore(database: Database): GroupStore {
  const find = async (tenantId: Uuid, slug: string): Promise<Group | null> => {
    const [row] = await database.read<GroupRow>({
      name: 'group',
      scope: { tenantId },
      text: `${select} where g.tenant_id = $1 and g.slug = $2`,
      values: [tenantId, slug],
    });
    return row ? groupOf(row) : null;
  };

  return {
    group: find,

    async insertGroup(group, idempotency) {
      const rows = await database.write({
        name: 'group_insert',
        scope: idempotentScope(group.tenantId, idempotency),
        text: `with made as (
            insert into groups (tenant_id, slug, name, description, created_at) values ($1, $2, $3, $4, $5)
            on conflict do nothing returning tenant_id, slug),
          joined as (
            insert into group_members (tenant_id, slug, device_id)
            select tenant_id, slug, id from made, unnest($6::uuid[]) as id on conflict do nothing),
          ${idempotencyCte(7, 'made')}
          select slug from made`,
        values: [
          group.tenantId,
          group.slug,
          group.name,
          group.description,
          group.createdAt,
          idArray(group.deviceIds),
          idempotencyParameter(idempotency),
        ],
      });
      return rows.length > 0;
    },

    async joinGroup(tenantId, slug, deviceIds, idempotency) {
      const joined = await database.write({
        name: 'group_join',
        scope: idempotentScope(tenantId, idempotency),
        text: `with found as (select tenant_id, slug from groups where tenant_id = $1 and slug = $2 for key share),
          joined as (
            insert into group_members (tenant_id, slug, device_id)
            select tenant_id, slug, id from found, unnest($3::uuid[]) as id on conflict do nothing),
          ${idempotencyCte(4, 'found')}
          select slug from found`,
        values: [tenantId, slug, idArray(deviceIds), idempotencyParameter(idempotency)],
      });
      return joined.length > 0 ? find(tenantId, slug) : null;
    },

    async leaveGroup(tenantId, slug, deviceId) {
      const rows = await database.write({
        name: 'group_leave',
        scope: { tenantId },
        text: 'delete from group_members where tenant_id = $1 and slug = $2 and device_id = $3 returning slug',
        values: [tenantId, slug, deviceId],
      });
      return rows.length > 0;
    },

    async updateGroup(tenantId, slug, { name, description }) {
      const rows = await database.write({
        name: 'group_update',
        scope: { tenantId },
        text: `update groups set name = coalesce($3, name), description = case when $4 then $5 else description end
          where tenant_id = $1 and slug = $2 returning slug`,
        values: [tenantId, slug, name ?? null, description !== undefined, description ?? null],
      });
      return rows.length > 0 ? find(tenantId, slug) : null;
    },

    async deleteGroup(tenantId, slug) {
      const rows = await database.write({
        name: 'group_delete',
        scope: { tenantId },
        text: 'delete from groups where tenant_id = $1 and slug = $2 returning slug',
        values: [tenantId, slug],
      });
      return rows.length > 0;
    },

    async groups(tenantId, limit, after, slugs) {
      const among = slugs === undefined ? '' : 'and g.slug = any(array(select jsonb_array_elements_text($5::jsonb)))';
      const statement: ListStatement = {
        name: `groups${slugs === undefined ? '' : '_among'}`,
        scope: { tenantId },
        text: `${select} where g.tenant_id = $1 and (g.created_at, g.slug) < ($3, $4) ${among}
          order by g.created_at desc, g.slug desc limit $2`,
        values: (after, rows) => [
          ...[tenantId, rows, after?.createdAt ?? Number.MAX_SAFE_INTEGER, after?.id ?? ''],
          ...(slugs === undefined ? [] : [JSON.stringify(slugs)]),
        ],
      };
      const position = ({ createdAt, slug }: Group) => ({ createdAt, id: slug });
      return readPage(database, statement, { after, limit, of: groupOf, position });
    },

    countGroups: (tenantId) => countRows(database, 'groups_count', 'groups where tenant_id = $1', [tenantId], tenantId),
  };
}
