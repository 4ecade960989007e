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
  ...['users', 'invitations', 'api_keys', 'firmware', 'firmware_keys', 'firmware_signing'],
];

/**
 * Tables without a column `tenant_id`. A stored answer has a policy of its own. `presence` has none, because one that
 * looks at the device of each row costs a third of a page of devices.
 */
const grantsWithoutTenant = [
  ...[{ relation: 'presence', privilege: 'select' }],
  ...['select', 'insert', 'update'].map((privilege) => ({ relation: 'idempotency', privilege })),
];

/** Tables with a column `tenant_id`. */
const tenantTables = `select c.relname::text as relation from pg_class c join pg_attribute a on a.attrelid = c.oid
  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
    and a.attname = 'tenant_id' and not a.attisdropped`;

/**
 * Roles belong to the server, so each database has its own. PostgreSQL truncates names to 63 bytes. Before PostgreSQL 16 a
 * member of a role can always take it.
 */
const roleState = `select r.role, r.role in (select rolname from pg_roles) as exists,
    r.role in (select rolname from pg_roles where pg_has_role(current_user, oid,
      case when current_setting('server_version_num')::integer < 160000 then 'MEMBER' else 'SET' end)) as usable
  from (select case when octet_length(current_database()) <= 56 then current_database() || '_tenant'
    else 'twinkeep_' || md5(current_database()) || '_tenant' end as role) r`;

/** Privileges that the role `$1` needs and does not have. */
const missingGrants = `select relation, privilege from (
    select relation, 'select' as privilege from (${tenantTables}) t
    union select relation, privilege from (${tenantTables}) t, unnest(array['insert', 'update', 'delete']) as privilege
      where relation = any($2::text[])
    union select * from jsonb_to_recordset($3::jsonb) as r(relation text, privilege text)) needed
  where not has_table_privilege($1, relation, privilege) order by relation, privilege`;

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
    const role = await database.transaction(ensureRole);
    if (await isBoundAs(database, role)) return { role };
    return { problem: `The policies do not apply to the role ${role}: it must neither own tables nor bypass them.` };
  } catch (error) {
    // Such as insufficient privileges; everything else is a fault of the store.
    if (error instanceof DatabaseError) return { problem: error.message };
    throw error;
  }
}

async function ensureRole(query: Query): Promise<string> {
  // The processes of a database one after another; a migration may take long.
  await query('set local statement_timeout = 0');
  await query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
  const [state] = await query<{ role: string; exists: boolean; usable: boolean }>(roleState);
  if (state === undefined) throw new Error('the query of the tenant role returned no row');
  const name = escapeIdentifier(state.role);
  if (!state.exists) await query(`create role ${name} nologin`);
  if (!state.usable) await query(`grant ${name} to current_user`);
  const missing = await query<{ relation: string; privilege: string }>(missingGrants, [
    ...[state.role, `{${writtenTables.join(',')}}`, JSON.stringify(grantsWithoutTenant)],
  ]);
  for (const { relation, privilege } of missing) {
    await query(`grant ${privilege} on ${escapeIdentifier(relation)} to ${name}`);
  }
  const [schema] = await query<{ name: string; granted: boolean }>(
    `select current_schema() as name, has_schema_privilege($1, current_schema(), 'usage') as granted`,
    [state.role],
  );
  if (schema && !schema.granted) await query(`grant usage on schema ${escapeIdentifier(schema.name)} to ${name}`);
  return state.role;
}

/** Whether policies apply to the role; throws the error of the database if the service cannot use it. */
const isBoundAs = (database: Database, role: string): Promise<boolean> =>
  database.transaction(async (query) => {
    await query(enterStatement(role), ['', '']);
    const [row] = await query<{ bound: boolean }>(`select row_security_active('devices') as bound`);
    return row?.bound === true;
  });
