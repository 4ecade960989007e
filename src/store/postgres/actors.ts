import type { EpochMs, Json, JsonObject, Principal } from '../../domain/values.ts';
import type { ActorKind, DurableOutput } from '../../machines/outputs.ts';
import type { ActorStore, JournalEntry, StoredActor } from '../contract.ts';
import { actorTables, tableOf } from './actor-tables.ts';
import { Committer } from './commit.ts';
import { type Database, idArray } from './database.ts';
import { deleteByKey } from './delete-by-key.ts';
import type { DeviceCounts } from './device-counts.ts';
import type { Fence } from './fence.ts';
import { inShards } from './shard-condition.ts';

export interface ActorRow {
  id: string;
  tenant_id: string;
  version: number;
  machine_version: number;
  value: Json;
  context: JsonObject;
  live: JsonObject | null;
  since: EpochMs;
  quarantine: string | null;
}

const common = ['id', 'tenant_id', 'version', 'machine_version', 'value', 'context', 'live', 'since', 'quarantine'];
const fieldsInColumns = Object.fromEntries(actorTables.map(({ kind, columnOf }) => [kind, Object.entries(columnOf)]));

/** Select list for actors of the kind, as `storedActor` needs it. */
export const actorColumns = (kind: ActorKind): string =>
  [...new Set([...common, ...(fieldsInColumns[kind] ?? []).map(([, column]) => column)])].join(', ');

export const storedActor = (kind: ActorKind, row: ActorRow): StoredActor => ({
  ref: { kind, id: row.id },
  tenantId: row.tenant_id,
  version: row.version,
  machineVersion: row.machine_version,
  value: row.value,
  context: { ...fieldsFromColumns(kind, row), ...row.context, ...row.live },
  since: row.since,
  quarantine: row.quarantine,
});

/** Rows of earlier builds have these members in their context as well. */
function fieldsFromColumns(kind: ActorKind, row: object): JsonObject {
  const members: JsonObject = {};
  for (const [name, column] of fieldsInColumns[kind] ?? []) members[name] = (row as JsonObject)[column] as Json;
  return members;
}

/** SQL for a context member that may be a live field, as `json`. */
export const contextField = (name: string): string => `coalesce(live->'${name}', (context->'${name}')::json)`;

/** SQL for the version of the actor that timer `o` belongs to. */
const versions = actorTables
  .map(({ kind, name }) => `when '${kind}' then (select version from ${name} where id = o.id)`)
  .join(' ');

interface TimerColumns {
  kind: ActorKind;
  id: string;
  timer_id: string;
  event: string;
  due_at: EpochMs;
}

interface OutboxColumns {
  seq: number;
  kind: ActorKind;
  id: string;
  version: number;
  n: number;
  output: DurableOutput;
}

export interface JournalColumns {
  version: number;
  at: EpochMs;
  by: Principal;
  event: string;
  from_value: Json;
  to_value: Json;
  data: JsonObject | null;
}

export const journalColumns = 'version, at, by, event, from_value, to_value, data';
export const journalEntry = ({ from_value: from, to_value: to, ...rest }: JournalColumns): JournalEntry => ({
  ...rest,
  from,
  to,
});

export function actorStore(database: Database, counts: DeviceCounts, fence: Fence | null): ActorStore {
  const committer = new Committer(database, fence);
  return {
    async load(kind, ids) {
      if (ids.length === 0) return [];
      const { name, columns } = tableOf(kind);
      const rows = await database.read<ActorRow>({
        name: `load_${kind}`,
        text: `select ${actorColumns(kind)} from ${name} where id = any($1::uuid[])${columns.deleted ? ' and not deleted' : ''}`,
        values: [idArray(ids)],
      });
      return rows.map((row) => storedActor(kind, row));
    },

    commit: (commits, options = {}) => counts.during(commits, () => committer.commit(commits, options)),

    async quarantine({ kind, id }, reason) {
      await database.write({
        name: `quarantine_${kind}`,
        text: `update ${tableOf(kind).name} set quarantine = $2 where id = $1`,
        values: [id, reason],
      });
    },

    async dueTimers(until, limit, shards) {
      const { suffix, condition, values } = inShards(shards, 'shard', 3);
      const rows = await database.read<TimerColumns>({
        name: `timers_due${suffix}`,
        text: `select kind, id, timer_id, event, due_at from timers where due_at <= $1${condition} order by due_at limit $2`,
        values: [until, limit, ...values],
      });
      return rows.map((row) => ({
        ref: { kind: row.kind, id: row.id },
        id: row.timer_id,
        event: row.event,
        dueAt: row.due_at,
      }));
    },

    async dropTimers(timers, dueBy) {
      if (timers.length === 0) return;
      await database.write({
        name: 'timers_drop',
        text: deleteByKey(
          'timers',
          'jsonb_to_recordset($1::jsonb) as r(kind text, id uuid, timer_id text, version bigint)',
          `o.id = r.id and o.timer_id = r.timer_id and o.kind = r.kind and o.due_at <= $2
            and r.version >= coalesce(case o.kind ${versions} end, 0)`,
        ),
        values: [JSON.stringify(timers.map(({ ref, id, version }) => ({ ...ref, timer_id: id, version }))), dueBy],
      });
    },

    async postponeTimer({ ref: { kind, id }, id: timerId }, dueBy, until) {
      await database.write({
        name: 'timers_put_off',
        text: 'update timers set due_at = $5 where id = $1 and timer_id = $2 and kind = $3 and due_at <= $4',
        values: [id, timerId, kind, dueBy, until],
      });
    },

    async nextTimerAt(shards) {
      const { suffix, condition, values } = inShards(shards, 'shard', 1);
      const [row] = await database.read<{ due_at: EpochMs }>({
        name: `timers_next${suffix}`,
        text: `select due_at from timers where true${condition} order by due_at limit 1`,
        values,
      });
      return row?.due_at ?? null;
    },

    async pendingOutbox(limit, after, shards) {
      const { suffix, condition, values } = inShards(shards, 'shard', 3);
      const rows = await database.read<OutboxColumns>({
        name: `outbox_pending${suffix}`,
        text: `select seq, kind, id, version, n, output from outbox where seq > $2${condition} order by seq limit $1`,
        values: [limit, after, ...values],
      });
      return rows.map(({ seq, kind, id, version, n, output }) => ({ seq, from: { kind, id }, version, n, output }));
    },

    async journal({ kind, id }, limit, before) {
      const rows = await database.read<JournalColumns>({
        name: 'journal_of',
        text: `select ${journalColumns} from journal
          where id = $1 and kind = $2 and version < $3 order by version desc limit $4`,
        values: [id, kind, before ?? Number.MAX_SAFE_INTEGER, limit],
      });
      return rows.map(journalEntry);
    },
  };
}
