import type { Json, JsonObject } from '../../domain/values.ts';
import type { ActorKind, DeviceKeyRow, RowOutput } from '../../machines/outputs.ts';
import type { ActorCommit, OutboxKey } from '../contract.ts';
import { tableOf } from './actor-tables.ts';
import { assertStorable, binaryArray } from './binary-array.ts';
import type { SqlValue } from './database.ts';
import { idempotencyInput } from './idempotency.ts';

/*
 * A batch as the JSON parameters of its statement: one array for each actor kind and form. Everything written together
 * with an actor is nested in its member `effects`, so that the statement cannot write it without the actor.
 */

/** Effects of an actor's commit, in the order of the statement's sections. */
export const effectKinds = [
  'journal',
  'outbox',
  'set',
  'clear',
  'delivered',
  'keys',
  'keysChanged',
  'manifests',
  'tagsRemoved',
  'tagsAdded',
  'members',
  'proposals',
  'changes',
  'imported',
  'idempotency',
] as const;
export type EffectKind = (typeof effectKinds)[number];

type Effects = Partial<Record<EffectKind, Json[]>>;

/** Form of an actor's row: `new` inserts all columns, `full` updates all, `live_only` updates only the live columns. */
export const commitForms = ['live_only', 'full', 'new'] as const;
export type CommitForm = (typeof commitForms)[number];

/** Part of a statement: the actors of one kind and form, one kind of effect, or deliveries without an actor. */
export type Section = `${ActorKind}_${CommitForm}` | EffectKind | 'deliveries';

export const sectionOf = (kind: ActorKind, form: CommitForm): `${ActorKind}_${CommitForm}` => `${kind}_${form}`;

/**
 * The sections that a batch needs, with the parameters of each. Actors: their rows as JSON text, and the live parts of
 * their contexts as an array of `json`; devices: also their reports as an array of `text`, which PostgreSQL does not parse.
 * Effects have no parameters of their own. Deliveries: JSON text.
 */
export type SectionParameters = ReadonlyMap<Section, readonly SqlValue[]>;

export function sectionParameters(commits: readonly ActorCommit[], delivered: readonly OutboxKey[]): SectionParameters {
  const groups = new Map<Section, ActorGroup>();
  const present = new Set<EffectKind>();
  for (const commit of commits) {
    const form = commit.readVersion === 0 ? 'new' : commit.fixedUnchanged ? 'live_only' : 'full';
    const section = sectionOf(commit.ref.kind, form);
    let group = groups.get(section);
    if (!group) {
      group = { kind: commit.ref.kind, rows: [], live: [], samples: [] };
      groups.set(section, group);
    }
    group.rows.push(form === 'live_only' ? liveOnlyRow(commit, present) : fullRow(commit, present));
    group.live.push(assertStorable(JSON.stringify(commit.live)));
    group.samples.push(commit.samples?.text ?? null);
  }
  const parameters = new Map<Section, readonly SqlValue[]>();
  for (const [section, group] of groups) parameters.set(section, actorParameters(group));
  for (const effect of present) parameters.set(effect, []);
  if (delivered.length > 0) parameters.set('deliveries', [JSON.stringify(delivered.map(outboxKey))]);
  return parameters;
}

/** The actors of a section. */
interface ActorGroup {
  kind: ActorKind;
  rows: Json[];
  live: string[];
  /** Null for an actor without reports. */
  samples: (string | null)[];
}

const NO_SAMPLES = '{}';

function actorParameters({ kind, rows, live, samples }: ActorGroup): SqlValue[] {
  const actors = [JSON.stringify(rows), binaryArray('json', live)];
  if (kind !== 'device') return actors;
  return [...actors, samples.every((text) => text === null) ? NO_SAMPLES : binaryArray('text', samples)];
}

// The members of rows are in the order of `jsonb` as far as possible, by length and then by bytes: PostgreSQL sorts others.

function fullRow(commit: ActorCommit, present: Set<EffectKind>): Json {
  const { ref, tenantId, readVersion, version, machineVersion, value, columns, since } = commit;
  const row: JsonObject = { id: ref.id, since, value, version, tenant_id: tenantId, machine_version: machineVersion };
  if (readVersion !== 0) row.read_version = readVersion;
  if (commit.samples !== null) row.samples_at = commit.samples.at;
  for (const column in columns) if (columns[column] !== null) row[column] = columns[column] as Json;
  row.context = withoutColumns(commit, row);
  const effects = effectsOf(commit, present);
  if (effects !== null) row.effects = effects;
  return row;
}

function liveOnlyRow(commit: ActorCommit, present: Set<EffectKind>): Json {
  const { ref, readVersion, version, value, columns, since } = commit;
  const row: JsonObject = { id: ref.id, since, value, version, read_version: readVersion };
  if (commit.samples !== null) row.samples_at = commit.samples.at;
  for (const column of tableOf(ref.kind).liveColumns) row[column] = columns[column] ?? null;
  const effects = effectsOf(commit, present);
  if (effects !== null) row.effects = effects;
  return row;
}

/** The fixed part of the context, without the members that equal a column of the row. */
function withoutColumns({ ref, fixed }: ActorCommit, row: JsonObject): JsonObject {
  const { columnOf } = tableOf(ref.kind);
  const members: JsonObject = {};
  for (const name in fixed) {
    const column = columnOf[name];
    if (column === undefined || row[column] !== fixed[name]) members[name] = fixed[name] as Json;
  }
  return members;
}

function effectsOf(commit: ActorCommit, present: Set<EffectKind>): Effects | null {
  let effects: Effects | null = null;
  const put = (name: EffectKind, rows: Json[]): void => {
    if (rows.length === 0) return;
    effects ??= {};
    effects[name] = rows;
    present.add(name);
  };
  const { journal, outbox, timers, delivered, rows, idempotency } = commit;
  if (outbox.length > 0) put('outbox', outbox.map(({ n, output }) => ({ n, output })) as unknown as Json[]);
  if (timers.set.length > 0) {
    const last = new Map(timers.set.map((timer) => [timer.id, timer]));
    put(
      'set',
      [...last.values()].map(({ id, event, dueAt }) =>
        event === id ? { id, due_at: dueAt } : { id, event, due_at: dueAt },
      ),
    );
    // A timer that is both cleared and set is set: one statement cannot change a row twice.
    put(
      'clear',
      timers.clear.filter((id) => !last.has(id)),
    );
  } else if (timers.clear.length > 0) put('clear', timers.clear);
  if (journal.length > 0) put('journal', journal as unknown as Json[]);
  if (delivered.length > 0) put('delivered', delivered.map(outboxKey));
  if (rows.length > 0) addRows(rows, put);
  if (idempotency) put('idempotency', [idempotencyInput(idempotency)]);
  return effects;
}

const outboxKey = ({ from, version, n }: OutboxKey): Json => ({ kind: from.kind, id: from.id, version, n });

/** A key added in this commit, with the changes that the same commit makes to it afterwards. */
interface NewKey extends DeviceKeyRow {
  graceUntil: number | null;
  endedAt: number | null;
  endedAs: string | null;
}
type KeysEnd = Pick<Extract<RowOutput, { type: 'keys.end' }>, 'status' | 'at'> & { except: number[] };

/** The rows of an actor's commit: of one device at most. */
interface GatheredRows {
  deviceId: string;
  added: Map<number, NewKey>;
  graces: Record<string, number>;
  ends: KeysEnd[];
  manifest: Json | null;
  tagsRemoved: Map<string, Json>;
  tagsAdded: Map<string, Json>;
  members: Json[];
  proposals: Json[];
  changes: Json[];
  /** When the last reports were imported; null without any. */
  importedAt: number | null;
}

type RowOf<Type extends RowOutput['type']> = Extract<RowOutput, { type: Type }>;

/** Adds an output to the rows. A missing output does not compile. */
const gatherRow: { readonly [Type in RowOutput['type']]: (rows: GatheredRows, output: RowOf<Type>) => void } = {
  'key.put'(rows, { deviceId, key }) {
    rows.deviceId = deviceId;
    rows.added.set(key.keyVersion, { ...key, graceUntil: null, endedAt: null, endedAs: null });
  },
  'key.grace'(rows, { deviceId, keyVersion, graceUntil }) {
    rows.deviceId = deviceId;
    const key = rows.added.get(keyVersion);
    if (key) key.graceUntil = graceUntil;
    else rows.graces[keyVersion] = graceUntil;
  },
  'keys.end'(rows, { deviceId, status, at, except = [] }) {
    rows.deviceId = deviceId;
    rows.ends.push({ status, at, except });
    for (const key of rows.added.values()) {
      if (key.endedAt !== null || except.includes(key.keyVersion)) continue;
      key.endedAt = at;
      key.endedAs = status;
    }
  },
  'manifest.put'(rows, { manifest }) {
    rows.manifest = { ...manifest } as unknown as Json;
  },
  'tags.change'({ tagsAdded, tagsRemoved }, { deviceCreatedAt, added, removed }) {
    // Of the changes that several events of a batch make to a tag, the last one counts.
    const put = (tags: readonly string[], into: Map<string, Json>, other: Map<string, Json>): void => {
      for (const tag of tags) {
        other.delete(tag);
        into.set(tag, { tag, created_at: deviceCreatedAt });
      }
    };
    put(removed, tagsRemoved, tagsAdded);
    put(added, tagsAdded, tagsRemoved);
  },
  'member.bind'({ members }, { userId, tenantId, role }) {
    members.push({ user_id: userId, tenant_id: tenantId, role });
  },
  'proposal.accept'({ proposals }, { proposalId, planId }) {
    proposals.push({ id: proposalId, plan_id: planId });
  },
  'change.apply'({ changes }, { changeId, by, at }) {
    changes.push({ id: changeId, by: { ...by }, at });
  },
  'import.put'(rows, { at }) {
    rows.importedAt = Math.max(rows.importedAt ?? at, at);
  },
};

/** Merges several outputs about one device's keys, applied in order, into at most one change of each row. */
function addRows(outputs: readonly RowOutput[], put: (name: EffectKind, rows: Json[]) => void): void {
  const rows: GatheredRows = {
    ...{ deviceId: '', added: new Map(), graces: {}, ends: [] },
    ...{ manifest: null, tagsRemoved: new Map(), tagsAdded: new Map(), members: [], proposals: [], changes: [] },
    importedAt: null,
  };
  for (const output of outputs) {
    const gather = gatherRow[output.type] as (rows: GatheredRows, output: RowOutput) => void;
    gather(rows, output);
  }
  const { deviceId, added, graces, ends, manifest, tagsRemoved, tagsAdded, members, proposals, changes } = rows;
  if (rows.importedAt !== null) put('imported', [{ at: rows.importedAt }]);
  put(
    'keys',
    [...added.values()].map((key) => ({
      device_id: deviceId,
      key_version: key.keyVersion,
      signing_alg: key.signingAlg,
      sealed_secret: key.sealedSecret,
      public_key: key.publicKey,
      created_at: key.createdAt,
      grace_until: key.graceUntil,
      ended_at: key.endedAt,
      ended_as: key.endedAs,
    })),
  );
  if (ends.length > 0 || Object.keys(graces).length > 0) {
    put('keysChanged', [{ device_id: deviceId, graces, ends: ends as unknown as Json[] }]);
  }
  if (manifest !== null) put('manifests', [manifest]);
  put('tagsRemoved', [...tagsRemoved.values()]);
  put('tagsAdded', [...tagsAdded.values()]);
  put('members', members);
  put('proposals', proposals);
  put('changes', changes);
}
