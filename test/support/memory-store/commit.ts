import { commandStatuses, isFinalCommandStatus } from '../../../src/domain/command.ts';
import { shardOf } from '../../../src/domain/shards.ts';
import type { Json, JsonObject, Uuid } from '../../../src/domain/values.ts';
import type { ActorRef, RowOutput } from '../../../src/machines/outputs.ts';
import type { ActorCommit, OutboxKey, PendingOutput } from '../../../src/store/contract.ts';
import { tableOf } from '../../../src/store/postgres/actor-tables.ts';
import { assertStorable } from '../../../src/store/postgres/binary-array.ts';
import type { CommittedBatch } from '../committed-batch.ts';
import { nextAuditPosition } from './audit-chain.ts';
import { bigint, boolean, type Column, indexedText, integer, refuse, text, uuid } from './columns.ts';
import { type ActorRow, actorKey, type KeyRow, type MemoryDatabase, type Tables } from './database.ts';
import { samplesKey } from './history.ts';
import { idempotencyKey, putIdempotency } from './idempotency.ts';

/**
 * As JSON, which makes it a copy without values that JSON cannot represent. An unchanged fixed part is not sent, so it
 * is neither checked nor stored.
 */
export const serializeBatch = (batch: CommittedBatch): string =>
  JSON.stringify({ ...batch, actors: batch.actors.map(sentCommit) });

function sentCommit(actor: ActorCommit): ActorCommit {
  if (!isLiveOnly(actor)) return actor;
  const { liveColumns } = tableOf(actor.ref.kind);
  return { ...actor, fixed: {}, columns: pickMembers(actor.columns, (name) => liveColumns.includes(name)) };
}

const isLiveOnly = ({ fixedUnchanged, readVersion }: ActorCommit): boolean => fixedUnchanged && readVersion > 0;

const pickMembers = (members: JsonObject, fits: (name: string) => boolean): JsonObject =>
  Object.fromEntries(Object.entries(members).filter(([name]) => fits(name)));

const openStatuses = new Set<Json>(commandStatuses.filter((status) => !isFinalCommandStatus(status)));
const nullableColumns = new Set(['home_id', 'room_id', 'category', 'firmware', 'token_hash']);
const types: Readonly<Record<string, Column>> = { uuid, text, boolean, bigint };
/** Columns of actors that are indexed. */
const indexed = new Set(['device_type', 'token_hash', 'slug']);

export const outboxKey = ({ from, version, n }: OutboxKey): string => `${actorKey(from)}:${version}:${n}`;
export const tagKey = (tenantId: Uuid, tag: string, deviceId: Uuid): string => `${tenantId}/${tag}/${deviceId}`;
export const timerKey = (ref: ActorRef, id: string): string => `${actorKey(ref)}:${id}`;

/** One statement: writes everything of the batch, or throws and writes nothing. */
export function commitBatch(database: MemoryDatabase, tables: Tables, sent: string): { lost: ActorRef[] } {
  const batch = JSON.parse(assertStorable(sent)) as CommittedBatch;
  if (database.checked) for (const actor of batch.actors) checkTypes(actor);
  const stored = batch.actors.filter((actor) => isNext(tables, actor));
  const written = stored.map((actor) => {
    const row = rowAfter(tables, actor);
    if (database.checked) checkRow(tables, row);
    if (database.refuses(row)) refuse('23514', 'new row violates check constraint "refused"');
    tables.actors.set(actorKey(actor.ref), row);
    return { actor, row };
  });
  if (batch.atomic && stored.length < batch.actors.length) throw new AtomicConflict(batch.actors.map(({ ref }) => ref));
  // Delivered rows existed before: rows of this batch are not among them.
  for (const key of [...batch.delivered, ...stored.flatMap(({ delivered }) => delivered)]) {
    tables.outbox.delete(outboxKey(key));
  }
  for (const { actor, row } of written) applyEffects(tables, actor, row);
  addOutputs(database, tables, stored);
  putResponses(tables, stored);
  const lost = batch.actors.filter((actor) => !stored.includes(actor));
  return { lost: lost.map(({ ref }) => ref) };
}

/** A version conflict of an actor in an atomic batch. */
export class AtomicConflict extends Error {
  readonly lost: ActorRef[];
  constructor(lost: ActorRef[]) {
    super('version conflict in an atomic batch');
    this.lost = lost;
  }
}

function checkTypes(commit: ActorCommit): void {
  const { ref, tenantId, version, machineVersion, since, columns } = commit;
  uuid(ref.id, 'id');
  bigint(version, 'version');
  bigint(since, 'since');
  const table = tableOf(ref.kind);
  const liveOnly = isLiveOnly(commit);
  if (!liveOnly) {
    uuid(tenantId, 'tenant_id');
    integer(machineVersion, 'machine_version');
  }
  for (const [name, type] of Object.entries(table.columns)) {
    const value = columns[name] ?? null;
    if (value === null || (liveOnly && !table.liveColumns.includes(name))) continue;
    (types[type] as Column)(value, name);
  }
}

const isNext = (tables: Tables, { ref, readVersion }: ActorCommit): boolean =>
  (tables.actors.get(actorKey(ref))?.version ?? 0) === readVersion;

/** The row after the commit: with an unchanged fixed part, only the version, the value and the live part change. */
function rowAfter(tables: Tables, actor: ActorCommit): ActorRow {
  const { ref, tenantId, version, machineVersion, value, fixed, live, columns, since } = actor;
  const before = tables.actors.get(actorKey(ref));
  const context = { ...fixed, ...live };
  if (before === undefined || actor.readVersion === 0) {
    return { ref, tenantId, version, machineVersion, value, fixed, context, since, quarantine: null, columns };
  }
  if (!isLiveOnly(actor)) {
    const unchanged = 'created_at' in before.columns ? { created_at: before.columns.created_at as Json } : {};
    return {
      ...before,
      ...{ version, machineVersion, value, fixed, context, since },
      columns: { ...columns, ...unchanged },
    };
  }
  const changed = tableOf(ref.kind).liveColumns.map((name) => [name, columns[name] ?? null] as const);
  return {
    ...before,
    ...{ version, value, since },
    context: { ...(before.fixed ?? before.context), ...live },
    columns: { ...before.columns, ...Object.fromEntries(changed) },
  };
}

/** NOT NULL, the size of index entries, and the one unique column. */
function checkRow(tables: Tables, { ref, columns }: ActorRow): void {
  for (const name of Object.keys(tableOf(ref.kind).columns)) {
    const value = columns[name] ?? null;
    if (value === null) {
      if (!nullableColumns.has(name)) refuse('23502', `null value in column "${name}" violates not-null constraint`);
    } else if (indexed.has(name)) indexedText(value, name);
  }
  if (ref.kind !== 'tenant') return;
  const taken = tables.actors.first(
    (row) => row.ref.kind === 'tenant' && row.ref.id !== ref.id && row.columns.slug === columns.slug,
  );
  if (taken !== undefined) refuse('23505', 'duplicate key value violates unique constraint "tenants_slug_key"');
}

/** All effects of an actor's commit except its outputs and its stored response. */
function applyEffects(
  tables: Tables,
  { ref, version, journal, timers, rows, samples }: ActorCommit,
  row: ActorRow,
): void {
  const key = actorKey(ref);
  if (samples !== null && ref.kind === 'device') {
    const { tenantId } = row;
    tables.samples.set(samplesKey(ref.id, version), { deviceId: ref.id, tenantId, version, ...samples });
  }
  if (journal.length > 0) {
    const before = tables.journal.get(key) ?? [];
    for (const [n, { version }] of journal.entries()) {
      const isSame = (other: { version: number }) => other.version === version;
      if (!before.some(isSame) && journal.findIndex(isSame) === n) continue;
      refuse('23505', 'duplicate key value violates unique constraint "journal_pkey"');
    }
    const added = journal.map((entry) => ({
      ...entry,
      ...{ data: entry.data ?? null, tenantId: row.tenantId, position: nextAuditPosition(tables) },
    }));
    tables.journal.set(key, [...before, ...added]);
  }
  const set = new Map(timers.set.map((timer) => [timer.id, timer]));
  for (const id of timers.clear) if (!set.has(id)) tables.timers.delete(timerKey(ref, id));
  const { status = null, device_id: deviceId = null } = row.columns;
  const openAt = ref.kind === 'command' && openStatuses.has(status) ? (deviceId as string) : null;
  const shard = shardOf(row.tenantId);
  for (const { id, event, dueAt } of set.values()) {
    tables.timers.set(timerKey(ref, id), { ref, id, event, dueAt: bigint(dueAt, 'due_at') as number, openAt, shard });
  }
  if (rows.length > 0) writeRows(tables, { id: ref.id, tenantId: row.tenantId }, rows);
}

/** The tables, and the versions of keys that the same commit added. */
interface RowTarget {
  tables: Tables;
  id: Uuid;
  tenantId: Uuid;
  added: Set<number>;
}

type RowOf<Type extends RowOutput['type']> = Extract<RowOutput, { type: Type }>;

/** Writes an output. A missing output does not compile. */
const writeRow: { readonly [Type in RowOutput['type']]: (target: RowTarget, output: RowOf<Type>) => void } = {
  'key.put': ({ tables, added }, { deviceId, key }) =>
    changeKeys(tables, deviceId, (keys) => {
      const others = keys.filter((one) => !(one.keyVersion === key.keyVersion && added.has(key.keyVersion)));
      if (others.some(({ keyVersion }) => keyVersion === key.keyVersion)) {
        refuse('23505', 'duplicate key value violates unique constraint "device_keys_pkey"');
      }
      added.add(key.keyVersion);
      return [...others, { ...key, graceUntil: null, lastUsedAt: null, endedAt: null, endedAs: null }];
    }),
  'key.grace': ({ tables, added }, { deviceId, keyVersion, graceUntil }) =>
    changeKeys(tables, deviceId, (keys) =>
      keys.map((key) =>
        key.keyVersion === keyVersion && (key.endedAt === null || added.has(keyVersion)) ? { ...key, graceUntil } : key,
      ),
    ),
  'keys.end': ({ tables }, { deviceId, except, at, status }) =>
    changeKeys(tables, deviceId, (keys) =>
      keys.map((key) =>
        key.endedAt === null && !except?.includes(key.keyVersion) ? { ...key, endedAt: at, endedAs: status } : key,
      ),
    ),
  'manifest.put'({ tables }, { manifest }) {
    const tenantId = tables.manifests.get(manifest.deviceId)?.tenantId ?? manifest.tenantId;
    tables.manifests.set(manifest.deviceId, { ...manifest, tenantId });
  },
  'tags.change'({ tables, tenantId }, { deviceId, added, removed }) {
    for (const tag of removed) tables.deviceTags.delete(tagKey(tenantId, tag, deviceId));
    for (const tag of added) tables.deviceTags.set(tagKey(tenantId, tag, deviceId), { tenantId, tag, deviceId });
  },
  'member.bind'({ tables }, { userId, tenantId, role }) {
    const user = tables.users.get(userId);
    if (user === undefined || user.tenantId !== null) {
      refuse('23505', 'the user already belongs to a tenant or does not exist');
    }
    tables.users.set(user.id, { ...user, tenantId, role });
  },
  'proposal.accept'({ tables }, { proposalId, planId }) {
    const proposal = tables.proposals.get(proposalId);
    if (proposal?.status !== 'pending') refuse('23505', 'the proposal is no longer pending');
    tables.proposals.set(proposal.id, { ...proposal, status: 'accepted', planId });
  },
  'change.apply'({ tables, tenantId }, { changeId, by, at }) {
    const change = tables.changeRequests.get(changeId);
    const waits = change?.tenantId === tenantId && change.status === 'awaiting_confirmation' && change.expiresAt > at;
    if (!waits) refuse('23505', 'the change request no longer waits');
    tables.changeRequests.set(change.id, { ...change, status: 'applied', decidedBy: by, decidedAt: at });
  },
  'import.put'({ tables, id, tenantId }, { at }) {
    const position = tables.historyPositions.get(id) ?? { tenantId, version: 0, openFrom: null, importedAt: null };
    tables.historyPositions.set(id, { ...position, importedAt: Math.max(position.importedAt ?? at, at) });
  },
};

const changeKeys = (tables: Tables, deviceId: Uuid, change: (keys: readonly KeyRow[]) => KeyRow[]): void =>
  void tables.deviceKeys.set(deviceId, change(tables.deviceKeys.get(deviceId) ?? []));

function writeRows(
  tables: Tables,
  { id, tenantId }: { id: Uuid; tenantId: Uuid },
  outputs: readonly RowOutput[],
): void {
  const target = { tables, id, tenantId, added: new Set<number>() };
  for (const output of outputs)
    (writeRow[output.type] as (target: RowTarget, output: RowOutput) => void)(target, output);
}

/** In the order of their numbers, and of the actors in the batch. */
function addOutputs(database: MemoryDatabase, tables: Tables, stored: readonly ActorCommit[]): void {
  const outputs = stored.flatMap(({ ref: from, version, outbox }) => outbox.map((one) => ({ from, version, ...one })));
  for (const { from, version, n, output } of outputs.sort((a, b) => a.n - b.n)) {
    const key = outboxKey({ from, version, n });
    if (tables.outbox.has(key)) refuse('23505', 'duplicate key value violates unique constraint "outbox_id_key"');
    const shard = shardOf((tables.actors.get(actorKey(from)) as ActorRow).tenantId);
    const row: PendingOutput = { from, version, n, output, seq: database.nextSequence() };
    tables.outbox.set(key, { ...row, shard });
  }
}

function putResponses(tables: Tables, stored: readonly ActorCommit[]): void {
  const seen = new Set<string>();
  for (const { idempotency } of stored) {
    if (idempotency === null) continue;
    if (seen.has(idempotencyKey(idempotency))) refuse('21000', 'the statement cannot affect a row a second time');
    seen.add(idempotencyKey(idempotency));
    putIdempotency(tables, idempotency);
  }
}
