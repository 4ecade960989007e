/**
 * Actors are rows in the table of their kind: the state in this project's own format, and the columns that queries
 * need, written in the same commit. Times are epoch milliseconds. References that the hot path would have to check have
 * no foreign key; the single active process and the state machines keep them consistent.
 *
 * Hot rows (`devices`, `timers`, `presence`) have free space in their pages, and no column that telemetry changes is
 * indexed, so that an update stays in its page and touches no index (HOT).
 */
export const ground = `
create function refuse(reason text) returns text language plpgsql as $$
begin
  raise exception using errcode = '23505', message = reason;
end $$;

create table devices (
  id uuid primary key,
  tenant_id uuid not null,
  version bigint not null,
  machine_version integer not null,
  value jsonb not null,
  context jsonb not null,
  since bigint not null,
  quarantine text,
  device_type text not null,
  home_id uuid,
  room_id uuid,
  category text,
  firmware text,
  revoked boolean not null,
  deleted boolean not null,
  online boolean not null,
  created_at bigint not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create index devices_of_tenant on devices (tenant_id, created_at, id) where not deleted;
create index devices_of_home on devices (home_id, created_at, id) where home_id is not null;
create index devices_of_room on devices (room_id, created_at, id) where room_id is not null;
create index devices_of_type on devices (tenant_id, device_type, created_at, id) where not deleted;
create index devices_online on devices (tenant_id, created_at, id) where online and not deleted;
create index devices_revoked on devices (tenant_id, created_at, id) where revoked and not deleted;

create table commands (
  id uuid primary key,
  tenant_id uuid not null,
  version bigint not null,
  machine_version integer not null,
  value jsonb not null,
  context jsonb not null,
  since bigint not null,
  quarantine text,
  device_id uuid not null,
  action text not null,
  status text not null,
  verification text not null,
  critical boolean not null,
  written boolean not null,
  token_hash text,
  created_at bigint not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index commands_of_device on commands (device_id, created_at, id);
create index commands_open on commands (device_id, created_at, id)
  where status in ('submitted', 'awaiting_confirmation', 'dispatched', 'acknowledged', 'in_progress');
create index commands_by_token on commands (token_hash) where token_hash is not null;
create index commands_watching on commands (id) where verification = 'pending';

create table tenants (
  id uuid primary key,
  tenant_id uuid not null,
  version bigint not null,
  machine_version integer not null,
  value jsonb not null,
  context jsonb not null,
  since bigint not null,
  quarantine text,
  name text not null,
  slug text not null unique,
  suspended boolean not null,
  created_at bigint not null
);

-- Rows over 2 KB are compressed: with lz4 that costs little, without it only the larger ones are worth it.
do $$ begin
  alter table devices alter column context set compression lz4;
  alter table commands alter column context set compression lz4;
exception when feature_not_supported then
  alter table devices set (toast_tuple_target = 4080);
  alter table commands set (toast_tuple_target = 4080);
end $$;

create table device_keys (
  device_id uuid not null,
  key_version integer not null,
  signing_alg text not null,
  sealed_secret text,
  public_key text,
  created_at bigint not null,
  grace_until bigint,
  last_used_at bigint,
  ended_at bigint,
  ended_as text,
  primary key (device_id, key_version),
  check ((ended_at is null) = (ended_as is null))
) with (fillfactor = 80);

create table manifests (
  device_id uuid primary key,
  tenant_id uuid not null,
  category text,
  version integer not null,
  own boolean not null,
  capabilities jsonb not null
);

create table presence (
  device_id uuid primary key,
  last_seen bigint not null,
  battery double precision,
  refusals bigint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

create table journal (
  kind text not null,
  id uuid not null,
  version bigint not null,
  tenant_id uuid not null,
  at bigint not null,
  by jsonb not null,
  event text not null,
  from_value jsonb,
  to_value jsonb,
  data jsonb,
  primary key (id, version, kind)
);
create index journal_at on journal (at);

create table outbox (
  seq bigint generated always as identity primary key,
  kind text not null,
  id uuid not null,
  version bigint not null,
  n integer not null,
  output jsonb not null,
  unique (id, version, n, kind)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

create table timers (
  kind text not null,
  id uuid not null,
  timer_id text not null,
  event text not null,
  due_at bigint not null,
  primary key (id, timer_id, kind)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index timers_due on timers (due_at);

create table idempotency (
  digest text primary key,
  principal text not null,
  method text not null,
  path text not null,
  key text not null,
  body_hash text not null,
  state text not null,
  status integer not null,
  answer text not null,
  device_id uuid,
  expires_at bigint not null
);
create index idempotency_of_device on idempotency (device_id) where device_id is not null;
create index idempotency_expiry on idempotency (expires_at);

create table users (
  id uuid primary key,
  iss text not null,
  sub text not null,
  email text,
  email_verified boolean not null,
  tenant_id uuid,
  role text not null,
  created_at bigint not null,
  unique (iss, sub),
  check ((tenant_id is null) = (role = 'none'))
);
create index users_of_tenant on users (tenant_id) where tenant_id is not null;

create table homes (
  id uuid primary key,
  tenant_id uuid not null,
  name text not null,
  timezone text,
  created_at bigint not null
);
create index homes_of_tenant on homes (tenant_id, created_at, id);

create table rooms (
  id uuid primary key,
  tenant_id uuid not null,
  home_id uuid not null references homes on delete cascade,
  name text not null,
  created_at bigint not null
);
create index rooms_of_home on rooms (home_id, created_at, id);

create table groups (
  tenant_id uuid not null,
  slug text not null,
  name text not null,
  description text,
  created_at bigint not null,
  primary key (tenant_id, slug)
);
create index groups_newest on groups (tenant_id, created_at, slug);

create table group_members (
  tenant_id uuid not null,
  slug text not null,
  device_id uuid not null,
  primary key (tenant_id, slug, device_id),
  foreign key (tenant_id, slug) references groups on delete cascade
);
create index group_members_of_device on group_members (device_id);

create table flags (
  name text primary key,
  state boolean not null
);

create table revoked_tokens (
  jti text primary key,
  expires_at bigint not null
);
create index revoked_tokens_expiry on revoked_tokens (expires_at);
`;
