/**
 * History of devices (docs/decisions/0067). `samples` has the reports as they were accepted, by the day of their receipt;
 * `version` is that of the device's actor after the commit, so it is a position. The reports up to the version in
 * `history_positions` have been compacted: `history_parts` has the segments of days that are not complete yet,
 * `history_segments` one segment of each property and day, `history_rollups` the roll-ups of that day. `day` is a number of
 * days since 1970 in UTC, and `part` the version up to which a segment has the samples.
 *
 * Partitions are made ahead and dropped when they expire. A row whose partition is missing goes to the default partition. The
 * role of tenants has no privilege for partitions, and reads their rows through the tables, which have the policy.
 *
 * Compressed bodies and reports are not compressed again: that would cost a group commit more than the space is worth for
 * the hour until reports are compacted.
 */
export const historyMigration = `
create table samples (
  device_id uuid not null,
  version bigint not null,
  tenant_id uuid not null,
  at bigint not null,
  body text not null,
  primary key (device_id, version, at)
) partition by range (at);
alter table samples alter column body set storage external;
create table samples_default partition of samples default;

create table history_positions (
  device_id uuid primary key,
  tenant_id uuid not null,
  version bigint not null,
  open_from integer
);
create index history_open on history_positions (open_from) where open_from is not null;

create table history_parts (
  device_id uuid not null,
  property text collate "C" not null,
  day integer not null,
  part bigint not null,
  tenant_id uuid not null,
  samples integer not null,
  body bytea not null,
  primary key (device_id, property, day, part)
) partition by range (day);
alter table history_parts alter column body set storage external;
create table history_parts_default partition of history_parts default;

create table history_segments (
  device_id uuid not null,
  property text collate "C" not null,
  day integer not null,
  part bigint not null,
  tenant_id uuid not null,
  samples integer not null,
  body bytea not null,
  primary key (device_id, property, day)
) partition by range (day);
alter table history_segments alter column body set storage external;
create table history_segments_default partition of history_segments default;

create table history_rollups (
  device_id uuid not null,
  property text collate "C" not null,
  day integer not null,
  part bigint not null,
  tenant_id uuid not null,
  days bytea not null,
  hours bytea not null,
  quarters bytea not null,
  minutes bytea not null,
  primary key (device_id, property, day)
) partition by range (day);
alter table history_rollups alter column days set storage external, alter column hours set storage external,
  alter column quarters set storage external, alter column minutes set storage external;
create table history_rollups_default partition of history_rollups default;

do $$
declare
  relation text;
begin
  foreach relation in array array[
    'samples', 'history_positions', 'history_parts', 'history_segments', 'history_rollups'
  ] loop
    execute format('alter table %I enable row level security', relation);
    execute format('create policy rows_of_tenant on %I
      using (tenant_id = nullif(current_setting(''twinkeep.tenant'', true), '''')::uuid)', relation);
  end loop;
end $$;
`;
