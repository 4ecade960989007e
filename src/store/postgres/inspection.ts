import type { EpochMs, Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import type { ActorKind } from '../../machines/outputs.ts';
import type { ActorFilter, InspectionStore, ListedActor } from '../contract/inspection.ts';
import { tableOf } from './actor-tables.ts';
import {
  type ActorRow,
  actorColumns,
  type JournalColumns,
  journalColumns,
  journalEntry,
  storedActor,
} from './actors.ts';
import { type Database, idArray, type SqlValue } from './database.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';
import { overviewStore } from './overview.ts';

/** Maximum number of actors that one page of a filtered list examines. */
const MAX_SCANNED = 20_000;

interface ListedRow {
  id: string;
  name: string | null;
  version: number;
  value: Json;
  since: EpochMs;
  created_at: EpochMs;
  quarantine: string | null;
  /** Of commands, as the following ones. */
  device_id?: Uuid;
  device_name?: string | null;
  params?: JsonObject | null;
  requested_by?: Principal | null;
}

/** The name of an actor. */
const nameOf: Readonly<Record<ActorKind, string>> = {
  device: `coalesce(context->>'name', device_type)`,
  command: 'action',
  tenant: 'name',
  plan: `context->>'name'`,
};

/** The members of an actor in a list besides the common columns, from `columns`. Contexts are read only for actors that are on the page. */
const shown: Readonly<Record<ActorKind, { of: string; columns: string }>> = {
  device: { of: `${nameOf.device} as name`, columns: 'context, device_type' },
  command: {
    of: `${nameOf.command} as name, device_id, context->'params' as params, context->'requestedBy' as requested_by, (
      select coalesce(d.context->>'name', d.device_type) from devices d where d.id = device_id and d.tenant_id = $1 and not d.deleted
    ) as device_name`,
    columns: 'action, device_id, context',
  },
  tenant: { of: nameOf.tenant, columns: 'name' },
  plan: { of: `${nameOf.plan} as name`, columns: 'context' },
};

/** Indexed columns implied by a state, so that a short list among many actors is fast to read. */
const implied: Partial<Record<ActorKind, Readonly<Record<string, string>>>> = {
  device: { 'link.online': 'online', 'administration.revoked': 'revoked' },
  command: { 'lifecycle.awaiting_confirmation': `status = 'awaiting_confirmation'` },
};

/** A state is active if the value at its parent is its name, or has a member of its name. */
const inStates = `not exists (
    select from jsonb_array_elements($5::jsonb) as g(states) where not exists (
      select from jsonb_to_recordset(g.states) as s(parent text[], name text) where seen.value #> s.parent ? s.name))`;

function conditions(kind: ActorKind, { states, quarantined }: ActorFilter): { name: string; text: string } {
  const given = (states ?? []).flatMap((group) => {
    const [only] = group;
    const column = group.length === 1 && only !== undefined ? implied[kind]?.[only.join('.')] : undefined;
    return column === undefined ? [] : [column];
  });
  // Each once and in a fixed order, so that repeated states do not create another statement.
  const columns = [...new Set(given)].sort();
  const names = columns.map((column) => `_${column.split(' ')[0]}`);
  if (quarantined !== undefined) {
    columns.push(`quarantine is ${quarantined ? 'not ' : ''}null`);
    names.push(quarantined ? '_quarantined' : '_healthy');
  }
  if (tableOf(kind).columns.deleted) columns.push('not deleted');
  return { name: names.join(''), text: columns.map((column) => ` and ${column}`).join('') };
}

export const inspectionStore = (database: Database): InspectionStore => ({
  ...overviewStore(database),

  async actors(tenantId, kind, filter, limit, after) {
    const { name, text } = conditions(kind, filter);
    const { of, columns: shownColumns } = shown[kind];
    const columns = 'id, version, value, since, created_at, quarantine';
    const where = `from ${tableOf(kind).name} where tenant_id = $1 and (created_at, id) < ($2, $3)${text}
      order by created_at desc, id desc`;
    const states = filter.states === undefined ? null : JSON.stringify(filter.states.map(groupOf));
    const start: SqlValue[] = [tenantId, ...descendingStart(after)];
    const statement: ListStatement = {
      name: `inspect_${kind}${name}${states === null ? '' : '_states'}`,
      scope: { tenantId },
      text:
        states === null
          ? `select ${columns}, ${of} ${where} limit $4`
          : `select ${columns}, ${of} from (select ${columns}, ${shownColumns} ${where} limit ${MAX_SCANNED}) seen
              where ${inStates} order by created_at desc, id desc limit $4`,
      values: (from, rows) => [tenantId, ...descendingStart(from), rows, ...(states === null ? [] : [states])],
    };
    const page = await readPage(database, statement, {
      ...{ after, limit, of: (row: ListedRow) => listed(kind, row) },
      position: ({ createdAt, ref }) => ({ createdAt, id: ref.id }),
    });
    if (states === null) return page;
    // The statement does not examine all rows, so that it cannot count.
    const uncounted = { ...page, count: async () => null };
    if (page.next !== null) return uncounted;
    const [edge] = await database.read<{ created_at: EpochMs; id: string }>({
      name: `inspect_${kind}${name}_edge`,
      scope: { tenantId },
      text: `select created_at, id ${where} offset ${MAX_SCANNED - 1} limit 1`,
      values: start,
    });
    if (edge) return { ...uncounted, next: { createdAt: edge.created_at, id: edge.id } };
    return after === undefined ? page : uncounted;
  },

  async actor(tenantId, { kind, id }) {
    const { name, columns } = tableOf(kind);
    const [row] = await database.read<ActorRow>({
      name: `inspect_one_${kind}`,
      scope: { tenantId },
      text: `select ${actorColumns(kind)} from ${name}
        where id = $1 and tenant_id = $2${columns.deleted ? ' and not deleted' : ''}`,
      values: [id, tenantId],
    });
    return row ? storedActor(kind, row) : null;
  },

  async names(tenantId, kind, ids) {
    if (ids.length === 0) return new Map();
    const rows = await database.read<{ id: Uuid; name: string | null }>({
      name: `inspect_names_${kind}`,
      scope: { tenantId },
      text: `select id, ${nameOf[kind]} as name from ${tableOf(kind).name} where tenant_id = $1 and id = any($2::uuid[])`,
      values: [tenantId, idArray(ids)],
    });
    return new Map(rows.flatMap(({ id, name }) => (name === null ? [] : [[id, name] as const])));
  },

  async timers({ kind, id }) {
    const rows = await database.read<{ timer_id: string; event: string; due_at: EpochMs }>({
      name: 'inspect_timers',
      text: 'select timer_id, event, due_at from timers where id = $1 and kind = $2 order by due_at, timer_id',
      values: [id, kind],
    });
    return rows.map(({ timer_id, event, due_at }) => ({ ref: { kind, id }, id: timer_id, event, dueAt: due_at }));
  },

  async journal(tenantId, { kind, id }, limit, before) {
    const rows = await database.read<JournalColumns>({
      name: 'inspect_journal',
      scope: { tenantId },
      text: `select ${journalColumns} from journal
        where id = $1 and kind = $2 and tenant_id = $3 and version < $4 order by version desc limit $5`,
      values: [id, kind, tenantId, before ?? Number.MAX_SAFE_INTEGER, limit],
    });
    return rows.map(journalEntry);
  },
});

const groupOf = (group: readonly (readonly string[])[]): Json =>
  group.map((path) => ({ parent: path.slice(0, -1), name: path.at(-1) ?? '' }));

const listed = (
  kind: ActorKind,
  { id, created_at: createdAt, device_id, device_name, params, requested_by, ...rest }: ListedRow,
): ListedActor => ({
  ref: { kind, id },
  createdAt,
  ...rest,
  command:
    device_id === undefined
      ? null
      : {
          ...{ deviceId: device_id, deviceName: device_name ?? null },
          ...{ params: params ?? null, requestedBy: requested_by ?? null },
        },
});
