const device = `id, tenant_id, device_type, home_id, room_id, category, firmware, created_at, machine_version, quarantine, context,
  revoked, deleted, online, version, since, value, moving`;
const command = `id, tenant_id, device_id, action, critical, created_at, machine_version, token_hash, quarantine, context,
  version, since, value, status, verification, written, moving`;

/**
 * Makes updates of commands stay in their page, as those of devices do: no column that every command changes is
 * indexed. A device's open commands are found through their timers (`open_at`), a tenant's inbox through the tokens,
 * which a command has only while it waits.
 *
 * Stable columns come first in a row: for an update within a page, the WAL has the bytes between the first and the last
 * difference.
 */
export const inPlace = `
-- What is written while they are copied would be gone with the old tables.
lock table devices, commands, timers in access exclusive mode;

create table devices_in_place (
  id uuid not null,
  tenant_id uuid not null,
  device_type text not null,
  home_id uuid,
  room_id uuid,
  category text,
  firmware text,
  created_at bigint not null,
  machine_version integer not null,
  quarantine text,
  context jsonb not null,
  revoked boolean not null,
  deleted boolean not null,
  online boolean not null,
  version bigint not null,
  since bigint not null,
  value jsonb not null,
  moving json
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

create table commands_in_place (
  id uuid not null,
  tenant_id uuid not null,
  device_id uuid not null,
  action text not null,
  critical boolean not null,
  created_at bigint not null,
  machine_version integer not null,
  token_hash text,
  quarantine text,
  context jsonb not null,
  version bigint not null,
  since bigint not null,
  value jsonb not null,
  status text not null,
  verification text not null,
  written boolean not null,
  moving json
) with (fillfactor = 55, autovacuum_vacuum_scale_factor = 0.05);

do $$
declare name text;
begin
  foreach name in array array['devices_in_place', 'commands_in_place'] loop
    begin
      execute format('alter table %I alter column context set compression lz4, alter column moving set compression lz4', name);
    exception when feature_not_supported then
      execute format('alter table %I set (toast_tuple_target = 4080)', name);
    end;
  end loop;
end $$;

-- What others were granted on the old tables.
do $$
declare one record;
begin
  for one in
    select c.relname as place, a.privilege_type as what, case a.grantee when 0 then 'public' else a.grantee::regrole::text end as whom,
      case when a.is_grantable then ' with grant option' else '' end as how
    from pg_class c cross join lateral aclexplode(c.relacl) a
    where c.oid in ('devices'::regclass, 'commands'::regclass) and a.grantee <> c.relowner
  loop
    execute format('grant %s on %I to %s%s', one.what, one.place || '_in_place', one.whom, one.how);
  end loop;
end $$;

insert into devices_in_place (${device}) select ${device} from devices order by id;
insert into commands_in_place (${command}) select ${command} from commands order by id;
drop table devices;
drop table commands;
alter table devices_in_place rename to devices;
alter table commands_in_place rename to commands;

alter table devices add primary key (id);
create index devices_of_tenant on devices (tenant_id, created_at, id) where not deleted;
create index devices_of_home on devices (home_id, created_at, id) where home_id is not null;
create index devices_of_room on devices (room_id, created_at, id) where room_id is not null;
create index devices_of_type on devices (tenant_id, device_type, created_at, id) where not deleted;
create index devices_online on devices (tenant_id, created_at, id) where online and not deleted;
create index devices_revoked on devices (tenant_id, created_at, id) where revoked and not deleted;
create index devices_quarantined on devices (tenant_id, created_at, id) where quarantine is not null;

alter table commands add primary key (id);
create index commands_of_device on commands (device_id, created_at, id);
create index commands_of_tenant on commands (tenant_id, created_at, id);
create index commands_awaiting on commands (tenant_id, created_at, id) where token_hash is not null;
create index commands_by_token on commands (token_hash) where token_hash is not null;
create index commands_quarantined on commands (tenant_id, created_at, id) where quarantine is not null;

alter table timers add column open_at uuid;
update timers t set open_at = c.device_id from commands c
  where t.kind = 'command' and t.id = c.id
    and c.status in ('submitted', 'awaiting_confirmation', 'dispatched', 'acknowledged', 'in_progress');
create index timers_open on timers (open_at) where open_at is not null;
`;
