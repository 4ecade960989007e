/**
 * Row-level security below the application (docs/decisions/0058). A role that does not own the tables sees and writes
 * the rows of one tenant, which the setting `twinkeep.tenant` names, and none without it. The policies do not apply to
 * the owner, so builds that do not know them go on as before.
 *
 * A row of `idempotency` has no tenant: a statement has access to the row that `twinkeep.idempotency` names. A setting
 * that was local to a transaction is an empty text after it.
 *
 * The tables are locked in the order of the group commit's statement, so that a deadlock is unlikely; a lock that does not
 * come in time repeats the migration.
 */
export const rowSecurity = `
do $$
declare
  relation text;
  committed text[] := array['devices', 'commands', 'tenants', 'plans', 'journal', 'manifests', 'users', 'proposals', 'change_requests'];
begin
  for relation in
    select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
      and a.attname = 'tenant_id' and not a.attisdropped
    order by array_position(committed, c.relname::text) nulls last, c.relname
  loop
    execute format('alter table %I enable row level security', relation);
    execute format('create policy rows_of_tenant on %I
      using (tenant_id = nullif(current_setting(''twinkeep.tenant'', true), '''')::uuid)', relation);
  end loop;
end $$;
alter table idempotency enable row level security;
create policy row_of_statement on idempotency using (digest = current_setting('twinkeep.idempotency', true));
`;
