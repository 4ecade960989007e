/**
 * Common names that a person has unbound, which no registration rule binds again, and CAs that were deleted: what is stored
 * of these is deleted after the retention. For CAs that were deleted before, the retention begins with the migration.
 */
export const unboundSubjects = `
create table unbound_subjects (
  ca_id uuid not null,
  common_name text not null,
  tenant_id uuid not null,
  unbound_by uuid not null,
  unbound_at bigint not null,
  primary key (ca_id, common_name)
);
create table deleted_cas (
  id uuid primary key,
  tenant_id uuid not null,
  deleted_at bigint not null
);
alter table unbound_subjects enable row level security;
create policy rows_of_tenant on unbound_subjects
  using (tenant_id = nullif(current_setting('twinkeep.tenant', true), '')::uuid);
alter table deleted_cas enable row level security;
create policy rows_of_tenant on deleted_cas
  using (tenant_id = nullif(current_setting('twinkeep.tenant', true), '')::uuid);
insert into deleted_cas (id, tenant_id, deleted_at)
  select distinct on (ca_id) ca_id, tenant_id, (extract(epoch from now()) * 1000)::bigint
  from (select ca_id, tenant_id from ca_subjects union select ca_id, tenant_id from device_certificates) as used
  where not exists (select from device_cas where id = ca_id) order by ca_id;
`;
