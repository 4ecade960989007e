import { type CommandStatus, isFinalCommandStatus } from '../../../src/domain/command.ts';
import type { EpochMs } from '../../../src/domain/values.ts';
import type { ActorRef } from '../../../src/machines/outputs.ts';
import type { RetentionStore } from '../../../src/store/contract/retention.ts';
import { pruneAuditBlocks } from './audit-chain.ts';
import { type ActorRow, actorKey, type Tables } from './database.ts';
import type { Session } from './session.ts';
import type { Table } from './table.ts';

const DAY_MS = 86_400_000;
const USED_TOKENS_MS = 7_200_000;

/** Creation time of a UUID version 7. */
const creationTime = (id: string): EpochMs => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
/** True if both the id and the row were created before the limit. */
const isBefore = (id: string, createdAt: unknown, limit: EpochMs): boolean =>
  creationTime(id) < Math.max(0, Math.trunc(limit)) && (createdAt as EpochMs) < limit;

/** Deletes the first `batch` matching rows in key order, and returns how many were deleted. */
function prune<Row>(table: Table<Row>, batch: number, matches: (row: Row, key: string) => boolean): number {
  const matching = [...table].filter(([key, row]) => matches(row, key)).map(([key]) => key);
  const deleted = matching.sort().slice(0, batch);
  for (const key of deleted) table.delete(key);
  return deleted.length;
}

const owners = (rows: Iterable<ActorRef>): ReadonlySet<string> => new Set([...rows].map(actorKey));

function pruneActors(tables: Tables, kind: 'command' | 'plan', limit: EpochMs, batch: number): number {
  const timed = owners([...tables.timers.values()].map(({ ref }) => ref));
  const sending = owners([...tables.outbox.values()].map(({ from }) => from));
  const isOver = ({ columns }: ActorRow, key: string): boolean =>
    kind === 'command'
      ? isFinalCommandStatus(columns.status as CommandStatus) && !timed.has(key)
      : columns.over === true;
  return prune(
    tables.actors,
    batch,
    (row, key) =>
      row.ref.kind === kind &&
      isBefore(row.ref.id, row.columns.created_at, limit) &&
      isOver(row, key) &&
      !sending.has(key),
  );
}

/** The journal of an open command or plan is kept completely. */
function isOpen(tables: Tables, id: string): boolean {
  const command = tables.actors.get(actorKey({ kind: 'command', id }));
  const plan = tables.actors.get(actorKey({ kind: 'plan', id }));
  return (
    (command !== undefined && !isFinalCommandStatus(command.columns.status as CommandStatus)) ||
    plan?.columns.over === false
  );
}

function pruneJournal(tables: Tables, limit: EpochMs, batch: number): number {
  let deleted = 0;
  for (const [key, entries] of tables.journal) {
    if (deleted === batch) break;
    if (isOpen(tables, key.slice(key.indexOf(':') + 1))) continue;
    const old = entries.filter(({ at }) => at < limit).slice(0, batch - deleted);
    if (old.length === 0) continue;
    deleted += old.length;
    const remaining = entries.filter((entry) => !old.includes(entry));
    if (remaining.length > 0) tables.journal.set(key, remaining);
    else tables.journal.delete(key);
  }
  return deleted;
}

type Step = (tables: Tables, batch: number) => number;

function steps(now: EpochMs, days: { commands: number; journal: number }): Step[] {
  const commands = now - days.commands * DAY_MS;
  const journal = now - days.journal * DAY_MS;
  const isDeleted = ({ deletedCas, deviceCas }: Tables, caId: string): boolean =>
    (deletedCas.get(caId)?.deletedAt ?? journal) < journal && !deviceCas.has(caId);
  return [
    (tables, batch) => pruneActors(tables, 'command', commands, batch),
    (tables, batch) => pruneActors(tables, 'plan', commands, batch),
    (tables, batch) => prune(tables.proposals, batch, ({ id, createdAt }) => isBefore(id, createdAt, commands)),
    (tables, batch) => prune(tables.changeRequests, batch, ({ id, createdAt }) => isBefore(id, createdAt, commands)),
    (tables, batch) => pruneJournal(tables, journal, batch),
    (tables, batch) => prune(tables.audit, batch, ({ at }) => at < journal),
    (tables, batch) => prune(tables.idempotency, batch, ({ expiresAt }) => expiresAt < now),
    (tables, batch) => prune(tables.revokedTokens, batch, (expiresAt) => expiresAt < now - DAY_MS),
    (tables, batch) => prune(tables.presentedTokens, batch, ({ expiresAt }) => expiresAt < now - DAY_MS),
    (tables, batch) => prune(tables.userSessions, batch, ({ expiresAt }) => expiresAt < now),
    (tables, batch) => prune(tables.invitations, batch, ({ expiresAt }) => expiresAt < now),
    (tables, batch) => prune(tables.memories, batch, ({ expiresAt }) => expiresAt !== null && expiresAt <= now),
    (tables, batch) => prune(tables.usedSessionTokens, batch, (timestamp) => timestamp < now - USED_TOKENS_MS),
    (tables, batch) =>
      prune(tables.apiKeys, batch, ({ revokedAt, expiresAt }) => {
        const end = Math.min(revokedAt ?? Number.POSITIVE_INFINITY, expiresAt ?? Number.POSITIVE_INFINITY);
        return end < journal;
      }),
    (tables, batch) => prune(tables.caVerifications, batch, ({ expiresAt }) => expiresAt < now),
    (tables, batch) => prune(tables.caSubjects, batch, ({ caId }) => isDeleted(tables, caId)),
    (tables, batch) => prune(tables.unboundSubjects, batch, ({ caId }) => isDeleted(tables, caId)),
    (tables, batch) => prune(tables.deviceCertificates, batch, ({ caId }) => isDeleted(tables, caId)),
    (tables, batch) =>
      prune(
        tables.deletedCas,
        batch,
        ({ deletedAt }, id) =>
          deletedAt < journal &&
          [tables.caSubjects, tables.unboundSubjects, tables.deviceCertificates].every(
            (table: { where(of: (row: { caId: string }) => boolean): unknown[] }) =>
              table.where(({ caId }) => caId === id).length === 0,
          ),
      ),
    (tables, batch) => pruneAuditBlocks(tables, journal, batch),
  ];
}

export const retentionStore = (session: Session): RetentionStore => ({
  async prune(now, days, batch) {
    let total = 0;
    const expiredBefore = now - days.journal * DAY_MS;
    await session.write('retention.expired', [expiredBefore], (tables, at) =>
      tables.pruning.set('expired before', Math.max(tables.pruning.get('expired before') ?? 0, at)),
    );
    for (const step of steps(now, days)) {
      for (let deleted = batch; deleted === batch; total += deleted) {
        deleted = await session.write('retention.prune', [batch], step);
      }
    }
    await session.write('retention.pruned', [now], (tables, now) => tables.pruning.set('last', now));
    return total;
  },

  begin: (now) =>
    session.write('retention.begin', [now], (tables, now) => {
      if (!tables.pruning.has('last')) tables.pruning.set('last', now);
    }),

  lastPrunedAt: () => session.read('retention.prunedAt', [], (tables) => tables.pruning.get('last') ?? null),
});
