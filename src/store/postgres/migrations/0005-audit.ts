/**
 * Audit trail. Most actions of users are in the journal of the changed actor; `audit` has the others: changes of
 * records that are not actors, and rejected attempts. Lists read both backwards by (tenant, at); entries that devices
 * and timers cause are most of the journal and are not in that index.
 */
export const audit = `
create table audit (
  id uuid primary key,
  tenant_id uuid,
  at bigint not null,
  by uuid not null,
  key text,
  via text not null,
  action text not null,
  subject text not null,
  outcome text not null,
  request_id uuid not null
);
create index audit_of_tenant on audit (tenant_id, at, id);
create index audit_at on audit (at);
create index journal_by_users on journal (tenant_id, at, id, version) where by->>'kind' = 'user';

create index commands_of_tenant on commands (tenant_id, created_at, id);
create index devices_quarantined on devices (tenant_id, created_at, id) where quarantine is not null;
create index commands_quarantined on commands (tenant_id, created_at, id) where quarantine is not null;
create index tenants_quarantined on tenants (tenant_id, created_at, id) where quarantine is not null;
`;
