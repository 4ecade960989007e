/**
 * The index of devices by tag, in the order of the lists of devices. The tags of a device are in its context; its commits
 * keep the rows here. The order of the tags is that of their characters, whatever the collation of the database.
 */
export const deviceTags = `
create table device_tags (
  tenant_id uuid not null,
  tag text collate "C" not null,
  created_at bigint not null,
  device_id uuid not null,
  primary key (tenant_id, tag, created_at, device_id)
);
alter table device_tags enable row level security;
create policy rows_of_tenant on device_tags
  using (tenant_id = nullif(current_setting('twinkeep.tenant', true), '')::uuid);
`;
