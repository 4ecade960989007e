import type { Uuid } from '../../../src/domain/values.ts';
import type { Group, RecordStore } from '../../../src/store/contract.ts';
import { isDeleted } from './actors.ts';
import { bigint, type Columns, indexedText, isUuid, nullable, rowOf, text, uuid } from './columns.ts';
import { actorKey, type Tables } from './database.ts';
import { putIdempotency } from './idempotency.ts';
import { newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const idsOf = (value: unknown): Uuid[] => [...new Set((value as Uuid[]).filter(isUuid))];

const columns: Columns<Group> = {
  ...{
    tenantId: uuid,
    slug: indexedText,
    name: text,
    description: nullable(text),
    deviceIds: idsOf,
    createdAt: bigint,
  },
};

const groupKey = (tenantId: Uuid, slug: string): string => `${tenantId}/${slug}`;

/** The group as it is returned: without devices that are deleted or never existed. */
function shown(tables: Tables, group: Group): Group {
  const deviceIds = group.deviceIds.filter((id) => {
    const device = tables.actors.get(actorKey({ kind: 'device', id }));
    return device !== undefined && !isDeleted(device);
  });
  return { ...group, deviceIds: deviceIds.sort() };
}

type GroupStore = Pick<
  RecordStore,
  'insertGroup' | 'joinGroup' | 'leaveGroup' | 'updateGroup' | 'deleteGroup' | 'group' | 'groups' | 'countGroups'
>;

export const groupStore = (session: Session): GroupStore => ({
  insertGroup: (group, idempotency) =>
    session.write('records.insertGroup', [group, idempotency], (tables, group, idempotency) => {
      const row = rowOf(columns, group);
      const key = groupKey(row.tenantId, row.slug);
      if (tables.groups.has(key)) return false;
      tables.groups.set(key, row);
      putIdempotency(tables, idempotency);
      return true;
    }),

  joinGroup: (tenantId, slug, deviceIds, idempotency) =>
    session.write(
      'records.joinGroup',
      [tenantId, slug, deviceIds, idempotency],
      (tables, tenantId, slug, deviceIds, idempotency) => {
        const group = tables.groups.get(groupKey(tenantId, slug));
        if (group === undefined) return null;
        const joined = { ...group, deviceIds: idsOf([...group.deviceIds, ...deviceIds]) };
        tables.groups.set(groupKey(tenantId, slug), joined);
        putIdempotency(tables, idempotency);
        return shown(tables, joined);
      },
    ),

  leaveGroup: (tenantId, slug, deviceId) =>
    session.write('records.leaveGroup', [tenantId, slug, deviceId], (tables, tenantId, slug, deviceId) => {
      const group = tables.groups.get(groupKey(tenantId, slug));
      if (!group?.deviceIds.includes(deviceId)) return false;
      const deviceIds = group.deviceIds.filter((id) => id !== deviceId);
      tables.groups.set(groupKey(tenantId, slug), { ...group, deviceIds });
      return true;
    }),

  updateGroup: (tenantId, slug, changes) =>
    session.write('records.updateGroup', [tenantId, slug, changes], (tables, tenantId, slug, { name, description }) => {
      const group = tables.groups.get(groupKey(tenantId, slug));
      if (group === undefined) return null;
      const changed = {
        ...group,
        ...(name !== undefined && { name }),
        ...(description !== undefined && { description }),
      };
      const row = rowOf(columns, changed);
      tables.groups.set(groupKey(tenantId, slug), row);
      return shown(tables, row);
    }),

  deleteGroup: (tenantId, slug) =>
    session.write('records.deleteGroup', [tenantId, slug], (tables, tenantId, slug) =>
      tables.groups.delete(groupKey(tenantId, slug)),
    ),

  group: (tenantId, slug) =>
    session.read('records.group', [tenantId, slug], (tables, tenantId, slug) => {
      const group = tables.groups.get(groupKey(tenantId, slug));
      return group === undefined ? null : shown(tables, group);
    }),

  groups: (tenantId, limit, after, slugs) =>
    session.read('records.groups', [tenantId, limit, after, slugs], (tables, tenantId, limit, after, slugs) => {
      const own = tables.groups.where(
        (group) => group.tenantId === tenantId && (slugs === undefined || slugs.includes(group.slug)),
      );
      const page = newestFirst(own, ({ createdAt, slug }) => ({ createdAt, id: slug }), limit, after);
      return { ...page, items: page.items.map((group) => shown(tables, group)) };
    }),

  countGroups: (tenantId) =>
    session.read(
      'records.countGroups',
      [tenantId],
      (tables, tenantId) => tables.groups.where((group) => group.tenantId === tenantId).length,
    ),
});
