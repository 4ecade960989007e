import { shardInSql } from '../../domain/shards.ts';
import type { ActorKind } from '../../machines/outputs.ts';
import { actorTables, tableOf } from './actor-tables.ts';
import { openStatuses } from './command-statuses.ts';
import {
  type CommitForm,
  commitForms,
  type EffectKind,
  effectKinds,
  type Section,
  type SectionParameters,
  sectionOf,
} from './commit-input.ts';
import type { SqlValue } from './database.ts';
import { deleteByKey } from './delete-by-key.ts';
import { type Fence, fenceExpression } from './fence.ts';
import { idempotencyFields, putIdempotency } from './idempotency.ts';
import { shardArray } from './shard-condition.ts';

/*
 * The statements of group commits. A statement has a fixed set of sections, and a section whose parameter has no rows
 * writes nothing. So a batch can use any statement that has at least the sections it needs: there is a fixed number of
 * statements, and the last of them has every section. See decision 32.
 */

/** Columns of every actor table; a group commit does not write `quarantine`. */
const common: Readonly<Record<string, string>> = {
  id: 'uuid',
  tenant_id: 'uuid',
  version: 'bigint',
  machine_version: 'integer',
  value: 'jsonb',
  context: 'jsonb',
  since: 'bigint',
};
const fixed = new Set(['id', 'tenant_id', 'created_at']);
/** The columns of `common` that every transition writes. */
const always = ['version', 'value', 'since'];

/** Columns that a form writes, in addition to `live`. */
function columnsOf(kind: ActorKind, form: CommitForm): string[] {
  const { columns, liveColumns } = tableOf(kind);
  if (form === 'live_only') return [...always, ...liveColumns];
  const all = Object.keys({ ...common, ...columns });
  return form === 'new' ? all : all.filter((column) => !fixed.has(column));
}

/** Behaviour of a statement if a new actor exists already: the statement fails (23505), or skips that actor. */
export type OnDuplicate = 'fail' | 'skip';

/**
 * Sections for the actors of one kind and form, in the parameters `$n`, `$n+1` and, with samples, `$n+2`; the last section
 * returns the stored ones.
 */
function actorSections(kind: ActorKind, form: CommitForm, n: number, onDuplicate: OnDuplicate): string {
  const { name, columns } = tableOf(kind);
  const types: Readonly<Record<string, string>> = { ...common, ...columns };
  const written = columnsOf(kind, form);
  const read = form === 'new' ? written : ['id', 'read_version', ...written];
  const fields = read.map((column) => `${column} ${types[column] ?? 'bigint'}`);
  const samples = hasSamples(kind) ? samplesColumns : '';
  const input = hasSamples(kind)
    ? `rows from (jsonb_to_recordset($${n}::jsonb) as (${fields.join(', ')}, effects jsonb, samples_at bigint),
        unnest($${n + 1}::json[]), unnest($${n + 2}::text[])) as i(${read.join(', ')}, effects, samples_at, live, samples)`
    : `rows from (jsonb_to_recordset($${n}::jsonb) as (${fields.join(', ')}, effects jsonb), unnest($${n + 1}::json[]))
        as i(${read.join(', ')}, effects, live)`;
  const section = sectionOf(kind, form);
  if (form !== 'new') {
    const set = [...written, 'live'].map((column) => `${column} = i.${column}`);
    return `${section} as (
      update ${name} a set ${set.join(', ')} from ${input}
      where a.id = i.id and a.version = i.read_version
      returning a.id, a.tenant_id, a.version, i.effects, ${openAt(kind, 'a')} as open_at${samples})`;
  }
  const names = [...written, 'live'].join(', ');
  const insert = `insert into ${name} (${names}) select ${names} from ${kind}_given`;
  const storedRows = `select id, tenant_id, version, effects, ${openAt(kind, `${kind}_given`)} as open_at${samples} from ${kind}_given`;
  const givenCte = `${kind}_given as (select * from ${input})`;
  if (onDuplicate === 'fail') return `${givenCte}, ${kind}_inserted as (${insert}), ${section} as (${storedRows})`;
  // "is true" prevents a join: PostgreSQL then hashes the few ids, whatever it estimates their number to be.
  return `${givenCte},
    ${kind}_inserted as (${insert} on conflict (id) do nothing returning id),
    ${section} as (${storedRows} where (id in (select id from ${kind}_inserted)) is true)`;
}

/** Whether actors of the kind accept reports. */
const hasSamples = (kind: ActorKind): boolean => kind === 'device';
const samplesColumns = ', samples_at, samples';
const parameterCount = (kind: ActorKind): number => (hasSamples(kind) ? 3 : 2);

/** The reports of the stored devices: those of a device with a version conflict are not stored. */
const samplesSection = (sections: readonly Section[]): string =>
  `samples_done as (insert into samples (device_id, version, tenant_id, at, body) ${sections
    .map((name) => `select id, version, tenant_id, samples_at, samples from ${name} where samples is not null`)
    .join(' union all ')})`;

/** The device of a command that is not final, so that the command is found through its timers; otherwise null. */
const openAt = (kind: ActorKind, row: string): string =>
  kind === 'command' ? `case when ${row}.status in ${openStatuses} then ${row}.device_id end` : 'null::uuid';

const from = (name: EffectKind, fields: string): string =>
  `from effects a, jsonb_to_recordset(a.effects->'${name}') as r(${fields})`;

const outboxKeyFields = 'kind text, id uuid, version bigint, n integer';
const deliver = (source: string): string =>
  deleteByKey('outbox', source, 'o.id = r.id and o.version = r.version and o.n = r.n and o.kind = r.kind');

const effectSections: Readonly<Record<EffectKind, string>> = {
  journal: `insert into journal (kind, id, version, tenant_id, at, by, event, from_value, to_value, data)
    select a.kind, a.id, r.version, a.tenant_id, r.at, r.by, r.event, r."from", r."to", r.data
    ${from('journal', 'version bigint, at bigint, by jsonb, event text, "from" jsonb, "to" jsonb, data jsonb')}`,
  outbox: `insert into outbox (kind, id, version, n, output, shard)
    select a.kind, a.id, a.version, r.n, r.output, ${shardInSql('a.tenant_id')}
    ${from('outbox', 'n integer, output jsonb')} order by r.n`,
  set: `insert into timers (kind, id, timer_id, event, due_at, open_at, shard)
    select a.kind, a.id, r.id, coalesce(r.event, r.id), r.due_at, a.open_at, ${shardInSql('a.tenant_id')}
    ${from('set', 'id text, event text, due_at bigint')}
    on conflict (id, timer_id, kind) do update
      set event = excluded.event, due_at = excluded.due_at, open_at = excluded.open_at, shard = excluded.shard`,
  clear: deleteByKey(
    'timers',
    `effects a, jsonb_array_elements_text(a.effects->'clear') as r(id)`,
    'o.id = a.id and o.timer_id = r.id and o.kind = a.kind',
  ),
  delivered: deliver(`effects a, jsonb_to_recordset(a.effects->'delivered') as r(${outboxKeyFields})`),
  keys: `insert into device_keys
      (device_id, key_version, signing_alg, sealed_secret, public_key, created_at, grace_until, ended_at, ended_as)
    select r.* ${from(
      'keys',
      `device_id uuid, key_version integer, signing_alg text, sealed_secret text, public_key text, created_at bigint,
       grace_until bigint, ended_at bigint, ended_as text`,
    )}`,
  // The first end that does not except a key applies to it; without one both columns stay null.
  keysChanged: `update device_keys k set
      grace_until = coalesce((r.graces->>k.key_version::text)::bigint, k.grace_until),
      (ended_at, ended_as) = (
        select (e.value->>'at')::bigint, e.value->>'status' from jsonb_array_elements(r.ends) with ordinality as e(value, place)
        where not e.value->'except' @> to_jsonb(k.key_version) order by e.place limit 1)
    ${from('keysChanged', 'device_id uuid, graces jsonb, ends jsonb')}
    where k.device_id = r.device_id and k.ended_at is null`,
  manifests: `insert into manifests (device_id, tenant_id, category, version, own, capabilities, properties, removed)
    select r."deviceId", r."tenantId", r.category, r.version, r.own, r.capabilities, r.properties, r.removed ${from(
      'manifests',
      `"deviceId" uuid, "tenantId" uuid, category text, version integer, own boolean, capabilities jsonb,
        properties jsonb, removed jsonb`,
    )}
    on conflict (device_id) do update set category = excluded.category, version = excluded.version, own = excluded.own,
      capabilities = excluded.capabilities, properties = excluded.properties, removed = excluded.removed`,
  tagsRemoved: deleteByKey(
    'device_tags',
    `effects a, jsonb_to_recordset(a.effects->'tagsRemoved') as r(tag text, created_at bigint)`,
    'o.tenant_id = a.tenant_id and o.tag = r.tag and o.created_at = r.created_at and o.device_id = a.id',
  ),
  tagsAdded: `insert into device_tags (tenant_id, tag, created_at, device_id)
    select a.tenant_id, r.tag, r.created_at, a.id ${from('tagsAdded', 'tag text, created_at bigint')}
    on conflict do nothing`,
  members: `update users u set tenant_id = r.tenant_id, role = r.role
    ${from('members', 'user_id uuid, tenant_id uuid, role text')}
    where u.id = r.user_id and u.tenant_id is null returning u.id`,
  proposals: `update proposals p set status = 'accepted', plan_id = r.plan_id
    ${from('proposals', 'id uuid, plan_id uuid')}
    where p.id = r.id and p.status = 'pending' returning p.id`,
  changes: `update change_requests c set status = 'applied', decided_by = r.by, decided_at = r.at
    ${from('changes', 'id uuid, by jsonb, at bigint')}
    where c.id = r.id and c.tenant_id = a.tenant_id and c.status = 'awaiting_confirmation' and c.expires_at > r.at
    returning c.id`,
  imported: `insert into history_positions as p (device_id, tenant_id, version, imported_at)
    select a.id, a.tenant_id, 0, r.at ${from('imported', 'at bigint')}
    on conflict (device_id) do update set imported_at = greatest(p.imported_at, excluded.imported_at)`,
  idempotency: putIdempotency(from('idempotency', idempotencyFields)),
};

/** An unsuccessful binding of a member fails the whole statement (23505); the runtime then isolates the event. */
const membersBound = `(select refuse('the user already belongs to a tenant or does not exist')
  where (select count(*) from members_done) < (select sum(jsonb_array_length(effects->'members')) from effects)) as refused`;

/** Two plans of one proposal, or a plan of a rejected proposal, fail the whole statement. */
const proposalsAccepted = `(select refuse('the proposal is no longer pending')
  where (select count(*) from proposals_done) < (select sum(jsonb_array_length(effects->'proposals')) from effects)) as accepted`;

/** A change that was decided meanwhile, or has expired, fails the whole statement. */
const changesApplied = `(select refuse('the change request no longer waits')
  where (select count(*) from changes_done) < (select sum(jsonb_array_length(effects->'changes')) from effects)) as applied`;

/** Message of `refuse` for an atomic commit with a version conflict. */
export const ATOMIC_CONFLICT = 'version conflict in an atomic batch';

const actorSectionNames: readonly { kind: ActorKind; form: CommitForm; name: Section }[] = actorTables.flatMap(
  ({ kind }) => commitForms.map((form) => ({ kind, form, name: sectionOf(kind, form) })),
);

/** In the order of the statement. */
export const allSections: readonly Section[] = [
  ...actorSectionNames.map(({ name }) => name),
  ...effectKinds,
  'deliveries',
];

const NO_ROWS = '[]';
/** The parameters of an actor section without rows: no rows, and empty arrays of contexts and reports. */
const noActors = (kind: ActorKind): readonly SqlValue[] => [NO_ROWS, ...Array(parameterCount(kind) - 1).fill('{}')];

/** Prepared statement for all batches that need no sections but these. */
export class BatchStatement {
  readonly name: string;
  readonly sections: ReadonlySet<Section>;
  readonly #actors: readonly { kind: ActorKind; form: CommitForm; name: Section }[];

  constructor(name: string, sections: Iterable<Section>) {
    this.name = `commit_${name}`;
    this.sections = new Set(sections);
    this.#actors = actorSectionNames.filter((actor) => this.sections.has(actor.name));
  }

  covers(needed: readonly Section[]): boolean {
    return needed.every((section) => this.sections.has(section));
  }

  /** `expected`: number of actors that must be stored. `shards`: those of the actors, for a fence that checks them. */
  values(
    parameters: SectionParameters,
    { expected, atomic, shards }: { expected: number; atomic: boolean; shards: ReadonlySet<number> | null },
  ): SqlValue[] {
    const values: SqlValue[] = [];
    for (const { kind, name } of this.#actors) values.push(...(parameters.get(name) ?? noActors(kind)));
    if (this.#actors.length > 0) values.push(expected, atomic);
    if (this.sections.has('deliveries')) values.push(...(parameters.get('deliveries') ?? [NO_ROWS]));
    if (shards !== null) values.push(shardArray(shards));
    return values;
  }

  /** True if it inserts actors, so that a unique violation is possible. */
  get creates(): boolean {
    return this.#actors.some(({ form }) => form === 'new');
  }

  /** The statement fails as a whole if `fence` no longer holds. */
  text(fence: Fence | null, onDuplicate: OnDuplicate): string {
    let parameters = 0;
    const parts = this.#actors.map(({ kind, form }) => {
      const first = parameters + 1;
      parameters += parameterCount(kind);
      return actorSections(kind, form, first, onDuplicate);
    });
    const reporting = this.#actors.filter(({ kind }) => hasSamples(kind)).map(({ name }) => name);
    if (reporting.length > 0) parts.push(samplesSection(reporting));
    const results = ['0 as stored', 'null as names'];
    if (this.#actors.length > 0) {
      parts.push(
        storedSection(this.#actors),
        'effects as materialized (select * from stored where effects is not null)',
      );
      results.splice(0, 2, '(select count(*) from stored) as stored', conflicts(parameters + 1, parameters + 2));
      parameters += 2;
    }
    for (const name of effectKinds) {
      if (this.sections.has(name)) parts.push(`${name}_done as (${effectSections[name]})`);
    }
    if (this.sections.has('members')) results.push(membersBound);
    if (this.sections.has('proposals')) results.push(proposalsAccepted);
    if (this.sections.has('changes')) results.push(changesApplied);
    if (this.sections.has('deliveries')) {
      parameters += 1;
      const rows = `jsonb_to_recordset($${parameters}::jsonb) as r(${outboxKeyFields})`;
      parts.push(`deliveries_done as (${deliver(rows)})`);
    }
    if (fence !== null) results.unshift(fenceExpression(fence, parameters + 1));
    return `with ${parts.join(',\n')}\nselect ${results.join(', ')}`;
  }
}

const storedSection = (actors: readonly { kind: ActorKind; name: Section }[]): string =>
  `stored as (${actors
    .map(({ kind, name }) => `select '${kind}'::text as kind, id, tenant_id, version, effects, open_at from ${name}`)
    .join(' union all ')})`;

/**
 * Null if all actors were stored, otherwise the names of the stored ones; a conflict in an atomic batch fails the
 * statement.
 */
const conflicts = (expected: number, atomic: number): string =>
  `case when (select count(*) from stored) < $${expected}::integer then
    case when $${atomic}::boolean then array[refuse('${ATOMIC_CONFLICT}')] else array(select kind || ':' || id from stored) end
  end as names`;

const commandSections: readonly Section[] = [
  'device_live_only',
  'device_full',
  'command_live_only',
  'command_full',
  'command_new',
  'journal',
  'set',
  'clear',
  'idempotency',
];

/**
 * From narrow to wide; a batch takes the first that covers it. An empty section costs some microseconds, so frequent
 * batches have their own statements. Each costs a session 0.1 to 1.6 MB for as long as the connection lives.
 */
export const batchStatements: readonly BatchStatement[] = [
  new BatchStatement('deliveries', ['deliveries']),
  new BatchStatement('report', ['device_live_only']),
  new BatchStatement('device', ['device_live_only', 'device_full', 'journal']),
  new BatchStatement('request', ['command_new', 'journal', 'set']),
  new BatchStatement('keyed_request', ['command_new', 'journal', 'set', 'idempotency']),
  new BatchStatement('answer', ['device_live_only', 'command_live_only', 'journal', 'clear']),
  new BatchStatement('commands', commandSections),
  new BatchStatement('plan', [
    'command_new',
    'plan_live_only',
    'plan_new',
    'journal',
    'outbox',
    'set',
    'delivered',
    'idempotency',
  ]),
  new BatchStatement('plans', [...commandSections, 'plan_live_only', 'plan_new', 'outbox', 'delivered', 'deliveries']),
  new BatchStatement('any', allSections),
];
