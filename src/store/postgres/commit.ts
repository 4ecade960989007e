import type { ActorKind, ActorRef } from '../../machines/outputs.ts';
import { DataRefused, StoreUnavailable, type TurnCommit } from '../contract.ts';
import { type Form, type Joining, joining, type TurnInput, turnInput } from './commit-input.ts';
import type { Database, Statement, Value } from './database.ts';
import { deleteByKey } from './delete.ts';
import { FENCED, type Fence, ownsShard } from './fence.ts';
import { idempotencyFields, putIdempotency } from './idempotency.ts';
import { notFinal, tableOf } from './tables.ts';

/*
 * A turn is one statement: one round trip and one transaction. Actors are updated where the version read is still the
 * row's, or inserted where there is none; all that joins them is taken from what those UPDATE and INSERT answer, so the
 * loser of a conflict leaves nothing behind.
 */

/** What every actor's table has; `quarantine` is not a turn's to write. */
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
/** Of `common`, what each transition writes. */
const always = ['version', 'value', 'since'];

/** The columns that a form writes, beside `moving`. */
function columnsOf(kind: ActorKind, form: Form): string[] {
  const { columns, moving } = tableOf(kind);
  if (form === 'settled') return [...always, ...moving];
  const all = Object.keys({ ...common, ...columns });
  return form === 'new' ? all : all.filter((column) => !fixed.has(column));
}

/** The actors of one kind and form, which the parameters `$n` and the next hold; the last section is what was kept of them. */
function actorSections(kind: ActorKind, form: Form, n: number): string {
  const { name, columns } = tableOf(kind);
  const types: Readonly<Record<string, string>> = { ...common, ...columns };
  const written = columnsOf(kind, form);
  const read = form === 'new' ? written : ['id', 'read_version', ...written];
  const fields = read.map((column) => `${column} ${types[column] ?? 'bigint'}`);
  const input = `rows from (jsonb_to_recordset($${n}::jsonb) as (${fields.join(', ')}, also jsonb), unnest($${n + 1}::json[]))
    as i(${read.join(', ')}, also, moving)`;
  const section = sectionOf(kind, form);
  if (form !== 'new') {
    const set = [...written, 'moving'].map((column) => `${column} = i.${column}`);
    return `${section} as (
      update ${name} a set ${set.join(', ')} from ${input}
      where a.id = i.id and a.version = i.read_version
      returning a.id, a.tenant_id, a.version, i.also, ${openAt(kind, 'a')} as open_at)`;
  }
  const names = [...written, 'moving'].join(', ');
  // "is true" keeps the planner from making a join of it: it hashes the few ids, whatever it thinks of their number.
  return `${kind}_given as (select * from ${input}),
    ${kind}_inserted as (
      insert into ${name} (${names}) select ${names} from ${kind}_given on conflict (id) do nothing returning id),
    ${section} as (
      select id, tenant_id, version, also, ${openAt(kind, `${kind}_given`)} as open_at from ${kind}_given
      where (id in (select id from ${kind}_inserted)) is true)`;
}

/** The device of a command that is not final: its timers lead to it. Everything else has none. */
const openAt = (kind: ActorKind, row: string): string =>
  kind === 'command' ? `case when ${row}.status in ${notFinal} then ${row}.device_id end` : 'null::uuid';

const sectionOf = (kind: ActorKind, form: Form): string => `${kind}_${form}`;

const from = (name: Joining, fields: string): string =>
  `from also a, jsonb_to_recordset(a.also->'${name}') as r(${fields})`;

const outboxKeyFields = 'kind text, id uuid, version bigint, n integer';
const deliver = (source: string): string =>
  deleteByKey('outbox', source, 'o.id = r.id and o.version = r.version and o.n = r.n and o.kind = r.kind');

const joinSections: Readonly<Record<Joining, string>> = {
  journal: `insert into journal (kind, id, version, tenant_id, at, by, event, from_value, to_value, data)
    select a.kind, a.id, r.version, a.tenant_id, r.at, r.by, r.event, r."from", r."to", r.data
    ${from('journal', 'version bigint, at bigint, by jsonb, event text, "from" jsonb, "to" jsonb, data jsonb')}`,
  outbox: `insert into outbox (kind, id, version, n, output)
    select a.kind, a.id, a.version, r.n, r.output ${from('outbox', 'n integer, output jsonb')} order by r.n`,
  set: `insert into timers (kind, id, timer_id, event, due_at, open_at)
    select a.kind, a.id, r.id, r.event, r.due_at, a.open_at ${from('set', 'id text, event text, due_at bigint')}
    on conflict (id, timer_id, kind) do update
      set event = excluded.event, due_at = excluded.due_at, open_at = excluded.open_at`,
  clear: deleteByKey(
    'timers',
    `also a, jsonb_array_elements_text(a.also->'clear') as r(id)`,
    'o.id = a.id and o.timer_id = r.id and o.kind = a.kind',
  ),
  delivered: deliver(`also a, jsonb_to_recordset(a.also->'delivered') as r(${outboxKeyFields})`),
  keys: `insert into device_keys
      (device_id, key_version, signing_alg, sealed_secret, public_key, created_at, grace_until, ended_at, ended_as)
    select r.* ${from(
      'keys',
      `device_id uuid, key_version integer, signing_alg text, sealed_secret text, public_key text, created_at bigint,
       grace_until bigint, ended_at bigint, ended_as text`,
    )}`,
  // Of several ends the first that does not spare a key is the one it died of; none leaves both columns null.
  keysChanged: `update device_keys k set
      grace_until = coalesce((r.graces->>k.key_version::text)::bigint, k.grace_until),
      (ended_at, ended_as) = (
        select (e.value->>'at')::bigint, e.value->>'status' from jsonb_array_elements(r.ends) with ordinality as e(value, place)
        where not e.value->'except' @> to_jsonb(k.key_version) order by e.place limit 1)
    ${from('keysChanged', 'device_id uuid, graces jsonb, ends jsonb')}
    where k.device_id = r.device_id and k.ended_at is null`,
  manifests: `insert into manifests (device_id, tenant_id, category, version, own, capabilities)
    select r."deviceId", r."tenantId", r.category, r.version, r.own, r.capabilities ${from(
      'manifests',
      '"deviceId" uuid, "tenantId" uuid, category text, version integer, own boolean, capabilities jsonb',
    )}
    on conflict (device_id) do update set category = excluded.category, version = excluded.version, own = excluded.own,
      capabilities = excluded.capabilities`,
  members: `update users u set tenant_id = r.tenant_id, role = r.role
    ${from('members', 'user_id uuid, tenant_id uuid, role text')}
    where u.id = r.user_id and u.tenant_id is null returning u.id`,
  proposals: `update proposals p set status = 'accepted', plan_id = r.plan_id
    ${from('proposals', 'id uuid, plan_id uuid')}
    where p.id = r.id and p.status = 'pending' returning p.id`,
  idempotency: putIdempotency(from('idempotency', idempotencyFields)),
};

/** A member that could not be bound takes the whole statement down (23505), and the runtime finds out whose it was. */
const membersBound = `(select refuse('the user is a member of a tenant already, or is unknown')
  where (select count(*) from members_done) < (select sum(jsonb_array_length(also->'members')) from also)) as refused`;

/** Two plans of one proposal, or one of a refused one: nothing of the statement is kept. */
const proposalsAccepted = `(select refuse('the proposal is not pending any more')
  where (select count(*) from proposals_done) < (select sum(jsonb_array_length(also->'proposals')) from also)) as accepted`;

/** As `refuse` says it of a turn that is to be kept whole. */
const TORN = 'the turn is torn';

function textOf(input: TurnInput, fence: Fence | null): string {
  const sections = input.actors.map(({ kind, form }, index) => actorSections(kind, form, 2 * index + 1));
  const kept = input.actors.map(
    ({ kind, form }) =>
      `select '${kind}'::text as kind, id, tenant_id, version, also, open_at from ${sectionOf(kind, form)}`,
  );
  const results = ['0 as kept', 'null as names'];
  let parameters = 2 * input.actors.length;
  if (kept.length > 0) {
    parameters += 1;
    const count = '(select count(*) from kept)';
    sections.push(`kept as (${kept.join(' union all ')})`);
    results[0] = `${count} as kept`;
    const answer = input.whole ? `array[refuse('${TORN}')]` : "array(select kind || ':' || id from kept)";
    results[1] = `case when ${count} < $${parameters} then ${answer} end as names`;
  }
  if (input.joining.size > 0) sections.push('also as materialized (select * from kept where also is not null)');
  for (const name of joining) {
    if (input.joining.has(name)) sections.push(`${name}_done as (${joinSections[name]})`);
  }
  if (input.joining.has('members')) results.push(membersBound);
  if (input.joining.has('proposals')) results.push(proposalsAccepted);
  if (input.delivered !== null) {
    sections.push(
      `loose_done as (${deliver(`jsonb_to_recordset($${parameters + 1}::jsonb) as r(${outboxKeyFields})`)})`,
    );
  }
  if (fence !== null) results.unshift(ownsShard(fence));
  return `with ${sections.join(',\n')}\nselect ${results.join(', ')}`;
}

/** How many actors were kept, and, where that is not all, which. */
interface Answer {
  kept: number;
  names: string[] | null;
}

/** Commits turns on a database. */
export class Committer {
  private readonly database: Database;
  private readonly fence: Fence | null;
  private readonly statements = new Map<string, { name: string; text: string }>();
  private inserted = 0;

  constructor(database: Database, fence: Fence | null = null) {
    this.database = database;
    this.fence = fence;
  }

  async commit(turn: TurnCommit): Promise<{ lost: ActorRef[] }> {
    if (turn.actors.length === 0 && turn.delivered.length === 0) return { lost: [] };
    const input = turnInput(turn);
    const values: Value[] = input.actors.flatMap(({ json, moving }) => [json, moving]);
    if (input.actors.length > 0) values.push(turn.actors.length);
    if (input.delivered !== null) values.push(input.delivered);
    const row = await this.write({ ...this.statement(input), values, once: true });
    if (row === TORN) return { lost: turn.actors.map(({ ref }) => ref) };
    for (const { readVersion } of turn.actors) if (readVersion === 0) this.inserted += 1;
    if (!row?.names) return { lost: [] };
    const kept = new Set(row.names);
    return { lost: turn.actors.map(({ ref }) => ref).filter(({ kind, id }) => !kept.has(`${kind}:${id}`)) };
  }

  private async write(statement: Statement): Promise<Answer | typeof TORN | undefined> {
    try {
      return (await this.database.write<Answer>(statement))[0];
    } catch (error) {
      if (!(error instanceof DataRefused)) throw error;
      if (error.message === TORN) return TORN;
      if (error.message !== FENCED) throw error;
      this.fence?.refused(FENCED);
      throw new StoreUnavailable(FENCED);
    }
  }

  /**
   * One prepared statement for each combination of sections. A plan made for empty tables is wrong for full ones, and an
   * embedded database analyses nothing by itself: with every tenfold of rows the statements are prepared anew.
   */
  private statement(input: TurnInput): { name: string; text: string } {
    const actors = input.actors.map(({ kind, form }) => sectionOf(kind, form));
    const sections = [
      ...actors,
      ...joining.filter((name) => input.joining.has(name)),
      input.delivered === null,
      input.whole,
    ];
    const key = `${Math.trunc(Math.log10(this.inserted + 1))} ${sections.join(' ')}`;
    let statement = this.statements.get(key);
    if (!statement) {
      statement = { name: `turn_${this.statements.size}`, text: textOf(input, this.fence) };
      this.statements.set(key, statement);
    }
    return statement;
  }
}
