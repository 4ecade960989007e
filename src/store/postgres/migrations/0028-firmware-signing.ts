/**
 * Keys whose signatures a tenant accepts on firmware, whether it requires one, and the signature of a release.
 * `firmware.size` is that of the file at `url`; `firmware.signature_key_id` is the key that verified `signature` when the
 * release was released. A release of a build that does not know the columns has none of them, and counts as unsigned.
 */
export const firmwareSigning = `
create table firmware_signing (
  tenant_id uuid primary key,
  required boolean not null
);
create table firmware_keys (
  tenant_id uuid not null,
  key_id text not null,
  public_key text not null,
  name text not null,
  added_by uuid not null,
  created_at bigint not null,
  primary key (tenant_id, key_id)
);
alter table firmware add column size bigint, add column signature text, add column signature_key_id text;
`;
