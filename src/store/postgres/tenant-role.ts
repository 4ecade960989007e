import { DatabaseError, escapeIdentifier } from 'pg';
import type { Database, Query } from './database.ts';
import { MIGRATION_LOCK } from './migrate.ts';
import { enterStatement } from './tenant-query.ts';

/** The service's own statements are subject to the policies: it would find no row. */
export class NotTableOwner extends Error {
  override name = 'NotTableOwner';
}

/** The role of tenants, or why row-level security cannot be used. */
export type TenantRole = { role: string } | { problem: string };

/** Tables whose rows statements of a tenant write. Actors are written by group commits, the audit log by the service. */
const writtenTables = [
  ...['homes', 'rooms', 'groups', 'group_members', 'memories', 'proposals', 'change_requests'],
  ...['dashboards'],
  ...['users', 'invitations', 'api_keys', 'firmware', 'firmware_keys', 'firmware_signing'],
  ...['ca_verifications', 'device_cas', 'ca_subjects', 'device_certificates', 'unbound_subjects', 'deleted_cas'],
];

/**
 * Tables without a column `tenant_id`. A stored answer has a policy of its own. `presence` has none, because one that
 * looks at the device of each row costs a third of a page of devices.
 */
const grantsWithoutTenant = [
  ...[{ relation: 'presence', privilege: 'select' }],
  ...['select', 'insert', 'update'].map((privilege) => ({ relation: 'idempotency', privilege })),
];

/** The schema of Twinkeep's tables; the search path may have other ones before it. */
const tableSchema = `(select relnamespace from pg_class where oid = 'devices'::regclass)`;

/**
 * Tables with rows of tenants. Those without the policy, such as copies that an administrator made, and those that the
 * service may not grant belong to other programs. A table whose migration forgot the policy cannot be read.
 */
const tenantTables = `select c.oid, c.relname::text as relation from pg_class c
  where c.relnamespace = ${tableSchema} and c.relkind in ('r', 'p') and c.relrowsecurity
    and pg_has_role(c.relowner, 'usage')
    and exists (select from pg_policy where polrelid = c.oid and polname = 'rows_of_tenant')`;

/**
 * Roles belong to the server, so each database has its own. PostgreSQL truncates names to 63 bytes. Before PostgreSQL 16 a
 * member of a role can always take it.
 */
const roleState = `select r.role, r.role in (select rolname from pg_roles) as exists,
    r.role in (select rolname from pg_roles where rolcanlogin) as "canLogin",
    r.role in (select rolname from pg_roles where pg_has_role(current_user, oid,
      case when current_setting('server_version_num')::integer < 160000 then 'MEMBER' else 'SET' end)) as usable
  from (select case when octet_length(current_database()) <= 56 then current_database() || '_tenant'
    else 'twinkeep_' || md5(current_database()) || '_tenant' end as role) r`;

/** Privileges that the role `$1` needs and does not have. The names of the tables are quoted where necessary. */
const missingGrants = `with tenant_tables as (${tenantTables})
  select oid::regclass::text as relation, privilege from (
    select oid, 'select' as privilege from tenant_tables
    union select oid, privilege from tenant_tables, unnest(array['insert', 'update', 'delete']) as privilege
      where relation = any($2::text[])
    union select relation::regclass::oid, privilege
      from jsonb_to_recordset($3::jsonb) as r(relation text, privilege text)) needed
  where not has_table_privilege($1::name, oid, privilege) order by relation, privilege`;

/** Throws `NotTableOwner` if the policies apply to the service itself. Needs a migrated database. */
export async function checkTableOwner(database: Database): Promise<void> {
  const [own] = await database.read<{ bound: boolean; name: string }>({
    text: `select row_security_active('devices') as bound, current_user::text as name`,
  });
  if (!own?.bound) return;
  throw new NotTableOwner(
    `The database role ${own.name} does not own the tables, so row-level security hides their rows from the service. ` +
      'Make it a member of the role that owns them.',
  );
}

/**
 * Creates the role of tenants if it is missing, and grants it what statements of tenants need, also in tables of later
 * migrations. Repeatable; needs a migrated database. Throws the faults of the store.
 */
export async function prepareTenantRole(database: Database): Promise<TenantRole> {
  try {
    const prepared = await database.transaction(ensureRole);
    if ('problem' in prepared) return prepared;
    const problem = await problemAs(database, prepared.role);
    return problem === null ? prepared : { problem };
  } catch (error) {
    // Such as insufficient privileges; everything else is a fault of the store.
    if (error instanceof DatabaseError) return { problem: error.message };
    throw error;
  }
}

async function ensureRole(query: Query): Promise<TenantRole> {
  // The processes of a database one after another; a migration may take long.
  await query('set local statement_timeout = 0');
  await query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
  const [state] = await query<{ role: string; exists: boolean; canLogin: boolean; usable: boolean }>(roleState);
  if (state === undefined) throw new Error('the query of the tenant role returned no row');
  const { role } = state;
  // The service creates none that can log in, so it belongs to someone else.
  if (state.canLogin) return { problem: `The role ${role} can log in: rename it, or make it nologin.` };
  const name = escapeIdentifier(role);
  if (!state.exists) await query(`create role ${name} nologin`);
  if (!state.usable) await query(`grant ${name} to current_user`);
  const missing = await query<{ relation: string; privilege: string }>(missingGrants, [
    ...[role, `{${writtenTables.join(',')}}`, JSON.stringify(grantsWithoutTenant)],
  ]);
  for (const { relation, privilege } of missing) await query(`grant ${privilege} on ${relation} to ${name}`);
  const [schema] = await query<{ name: string; granted: boolean }>(
    `select quote_ident(nspname) as name, has_schema_privilege($1::name, oid, 'usage') as granted
      from pg_namespace where oid = ${tableSchema}`,
    [role],
  );
  if (schema && !schema.granted) await query(`grant usage on schema ${schema.name} to ${name}`);
  return { role };
}

/** Why statements of tenants cannot run as the role; throws the error of the database if the service cannot use it. */
const problemAs = (database: Database, role: string): Promise<string | null> =>
  database.transaction(async (query) => {
    const [own] = await query<{ table: number }>(`select 'devices'::regclass::oid as table`);
    await query(enterStatement(role), ['', '']);
    const [entered] = await query<{ same: boolean; bound: boolean }>(
      `select to_regclass('devices') is not distinct from $1::oid::regclass as same, row_security_active($1::oid) as bound`,
      [own?.table ?? 0],
    );
    if (!entered?.same) return `With the search path of the role ${role} "devices" is another table, or none.`;
    if (entered.bound) return null;
    return `The policies do not apply to the role ${role}: it must neither own tables nor bypass them.`;
  });
