/** Plans, the fourth actor kind, with rows like those of the others. */
export const plans = `
create table plans (
  id uuid primary key,
  tenant_id uuid not null,
  version bigint not null,
  machine_version integer not null,
  value jsonb not null,
  context jsonb not null,
  since bigint not null,
  quarantine text,
  status text not null,
  over boolean not null,
  created_at bigint not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index plans_of_tenant on plans (tenant_id, created_at, id);
create index plans_open on plans (tenant_id, created_at, id) where not over;
create index plans_quarantined on plans (tenant_id, created_at, id) where quarantine is not null;
`;
