/** Firmware releases and their artifact files; index for the operators' list of tenants. */
export const firmware = `
create index tenants_newest on tenants (created_at, id);

create table artifacts (
  name uuid primary key,
  begun_at bigint not null
);

create table firmware (
  id uuid primary key,
  tenant_id uuid not null,
  device_type text not null,
  version text not null,
  notes text,
  status text not null check (status in ('draft', 'released', 'withdrawn')),
  rollout_percent integer not null check (rollout_percent between 0 and 100),
  url text,
  checksum text,
  artifact uuid references artifacts,
  artifact_bytes bigint,
  created_at bigint not null,
  released_at bigint,
  check ((artifact is null) = (artifact_bytes is null)),
  check (status <> 'released' or (checksum is not null and (url is not null or artifact is not null)))
);
create unique index firmware_versions on firmware (tenant_id, device_type, split_part(version, '+', 1));
create index firmware_newest on firmware (tenant_id, created_at, id);
create index firmware_artifacts on firmware (artifact) where artifact is not null;
`;
