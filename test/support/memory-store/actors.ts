import { type OwnedShards, shardOf } from '../../../src/domain/shards.ts';
import type { JsonObject, Uuid } from '../../../src/domain/values.ts';
import type { ActorStore, JournalEntry, StoredActor, TimerRow } from '../../../src/store/contract.ts';
import { actorTables } from '../../../src/store/postgres/actor-tables.ts';
import { toCommittedBatch } from '../committed-batch.ts';
import { bigint, text } from './columns.ts';
import { AtomicConflict, commitBatch, serializeBatch, timerKey } from './commit.ts';
import { type ActorRow, actorKey, type JournalRow, type StoredTimer } from './database.ts';
import type { Session } from './session.ts';

const fieldsInColumns = new Map(actorTables.map(({ kind, columnOf }) => [kind, Object.entries(columnOf)]));

export const isDeleted = ({ columns }: ActorRow): boolean => columns?.deleted === true;

/** The actor as it is loaded: its context includes the members that are stored as columns. */
export function storedActor(row: ActorRow): StoredActor {
  const { ref, tenantId, version, machineVersion, value, since, quarantine } = row;
  return {
    ref,
    tenantId,
    version,
    machineVersion,
    value,
    context: { ...fieldsFromColumns(row), ...row.context },
    since,
    quarantine,
  };
}

function fieldsFromColumns({ ref, tenantId, columns }: ActorRow): JsonObject {
  const row: JsonObject = { ...columns, id: ref.id, tenant_id: tenantId };
  if (row.created_at === undefined) return {};
  return Object.fromEntries((fieldsInColumns.get(ref.kind) ?? []).map(([name, column]) => [name, row[column] ?? null]));
}

export const journalEntry = ({ tenantId: _, position: __, ...entry }: JournalRow): JournalEntry => entry;

/** Newest first, with versions below `before`. */
export const newestEntries = (
  rows: readonly JournalRow[] | undefined,
  limit: number,
  before = Number.MAX_SAFE_INTEGER,
): JournalEntry[] =>
  (rows ?? [])
    .filter(({ version }) => version < before)
    .sort((a, b) => b.version - a.version)
    .slice(0, limit)
    .map(journalEntry);

/** Whether a tenant is in one of the shards. */
export const isInShards = (shards: OwnedShards | undefined, tenantId: Uuid): boolean =>
  shards === null || shards === undefined || shards.includes(shardOf(tenantId));

const isRowInShards = (shards: OwnedShards | undefined, { shard = 0 }: { shard?: number }): boolean =>
  shards === null || shards === undefined || shards.includes(shard);

export const timerRow = ({ openAt: _, shard: _shard, ...timer }: StoredTimer): TimerRow => timer;

export const actorStore = (session: Session): ActorStore => ({
  load: (kind, ids) =>
    session.read('actors.load', [kind, ids], (tables, kind, ids) =>
      [...new Set(ids)].flatMap((id) => {
        const row = tables.actors.get(actorKey({ kind, id }));
        return row === undefined || isDeleted(row) ? [] : [storedActor(row)];
      }),
    ),

  async commit(commits, options) {
    const batch = toCommittedBatch(commits, options);
    if (batch.actors.length === 0 && batch.delivered.length === 0) return { lost: [] };
    try {
      return await session.write('actors.commit', [serializeBatch(batch)], (tables, sent) =>
        commitBatch(session.database, tables, sent),
      );
    } catch (error) {
      if (error instanceof AtomicConflict) return { lost: error.lost };
      throw error;
    }
  },

  quarantine: (ref, reason) =>
    session.write('actors.quarantine', [ref, reason], (tables, ref, reason) => {
      const row = tables.actors.get(actorKey(ref));
      const quarantine = reason === null ? null : (text(reason, 'quarantine') as string);
      if (row !== undefined) tables.actors.set(actorKey(ref), { ...row, quarantine });
    }),

  dueTimers: (until, limit, shards) =>
    session.read('actors.dueTimers', [until, limit, shards], (tables, until, limit, shards) =>
      tables.timers
        .where((timer) => timer.dueAt <= until && isRowInShards(shards, timer))
        .sort((a, b) => a.dueAt - b.dueAt)
        .slice(0, limit)
        .map(timerRow),
    ),

  dropTimers: (timers, dueBy) =>
    session.write('actors.dropTimers', [timers, dueBy], (tables, timers, dueBy) => {
      for (const { ref, id, version } of timers) {
        const timer = tables.timers.get(timerKey(ref, id));
        const current = tables.actors.get(actorKey(ref))?.version ?? 0;
        if (timer !== undefined && timer.dueAt <= dueBy && version >= current) tables.timers.delete(timerKey(ref, id));
      }
    }),

  postponeTimer: ({ ref, id }, dueBy, until) =>
    session.write('actors.putOffTimer', [ref, id, dueBy, until], (tables, ref, id, dueBy, until) => {
      const timer = tables.timers.get(timerKey(ref, id));
      const dueAt = bigint(until, 'due_at') as number;
      if (timer !== undefined && timer.dueAt <= dueBy) tables.timers.set(timerKey(ref, id), { ...timer, dueAt });
    }),

  nextTimerAt: (shards) =>
    session.read('actors.nextTimerAt', [shards], (tables, shards) => {
      let next: number | null = null;
      for (const timer of tables.timers.values()) {
        if ((next === null || timer.dueAt < next) && isRowInShards(shards, timer)) next = timer.dueAt;
      }
      return next;
    }),

  pendingOutbox: (limit, after, shards) =>
    session.read('actors.pendingOutbox', [limit, after, shards], (tables, limit, after, shards) =>
      tables.outbox
        .where((row) => row.seq > after && isRowInShards(shards, row))
        .sort((a, b) => a.seq - b.seq)
        .slice(0, limit)
        .map(({ shard: _, ...row }) => row),
    ),

  journal: (ref, limit, before) =>
    session.read('actors.journal', [ref, limit, before], (tables, ref, limit, before) =>
      newestEntries(tables.journal.get(actorKey(ref)), limit, before),
    ),
});
