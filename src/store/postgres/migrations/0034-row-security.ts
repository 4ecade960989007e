/**
 * Row-level security below the application (docs/decisions/0058). A role that does not own the tables sees and writes
 * the rows of one tenant, which the setting `twinkeep.tenant` names, and none without it. The policies do not apply to
 * the owner, so builds that do not know them go on as before.
 *
 * A row of `idempotency` has no tenant: a statement has access to the row that `twinkeep.idempotency` names. A setting
 * that was local to a transaction is an empty text after it.
 *
 * The tables are locked in the order of the group commit's statement, so that a deadlock is unlikely; a lock that does not
 * come in time repeats the migration. They are named, because the schema may contain tables of other programs.
 */
export const rowSecurity = `
do $$
declare
  relation text;
begin
  foreach relation in array array[
    'devices', 'commands', 'tenants', 'plans', 'journal', 'manifests', 'users', 'proposals', 'change_requests',
    'api_keys', 'audit', 'audit_blocks', 'audit_heads', 'ca_subjects', 'ca_verifications', 'device_cas',
    'device_certificates', 'firmware', 'firmware_keys', 'firmware_signing', 'group_members', 'groups', 'homes',
    'invitations', 'memories', 'rooms'
  ] loop
    execute format('alter table %I enable row level security', relation);
    execute format('create policy rows_of_tenant on %I
      using (tenant_id = nullif(current_setting(''twinkeep.tenant'', true), '''')::uuid)', relation);
  end loop;
end $$;
alter table idempotency enable row level security;
create policy row_of_statement on idempotency using (digest = current_setting('twinkeep.idempotency', true));
`;
