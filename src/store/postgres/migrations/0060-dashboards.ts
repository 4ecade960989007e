/** Dashboards of tenants (docs/decisions/0075). `home_id` has no foreign key: a dashboard remains when its home is deleted. */
export const dashboardsMigration = `
create table dashboards (
  id uuid primary key,
  tenant_id uuid not null,
  name text not null,
  home_id uuid,
  version integer not null,
  tiles jsonb not null,
  created_by text not null,
  created_at bigint not null,
  changed_by text not null,
  changed_at bigint not null
);
create index dashboards_of_tenant on dashboards (tenant_id, created_at, id);
alter table dashboards enable row level security;
create policy rows_of_tenant on dashboards
  using (tenant_id = nullif(current_setting('twinkeep.tenant', true), '')::uuid);
`;
