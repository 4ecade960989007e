/**
 * Certificate authorities of tenants, the codes of registrations in progress, and the certificates of devices. A subject
 * and a certificate outlive the registration of their CA: if it is registered again, bindings and revocations apply.
 */
export const deviceCasMigration = `
create table ca_verifications (
  tenant_id uuid not null,
  code_hash text not null,
  created_by uuid not null,
  expires_at bigint not null,
  primary key (tenant_id, code_hash)
);
create table device_cas (
  id uuid primary key,
  tenant_id uuid not null,
  name text not null,
  status text not null,
  certificate text not null,
  fingerprint text not null,
  subject_hash text not null,
  public_key_hash text not null unique,
  subject text not null,
  not_after bigint not null,
  registration jsonb,
  created_by uuid not null,
  created_at bigint not null,
  check (status in ('active', 'inactive'))
);
create index device_cas_of on device_cas (tenant_id);
create index device_cas_subject on device_cas (subject_hash);
create table ca_subjects (
  ca_id uuid not null,
  common_name text not null,
  tenant_id uuid not null,
  device_id uuid not null,
  bound_by uuid,
  bound_at bigint not null,
  primary key (ca_id, common_name)
);
create index ca_subjects_device on ca_subjects (device_id);
create table device_certificates (
  ca_id uuid not null,
  serial_number text not null,
  tenant_id uuid not null,
  device_id uuid,
  common_name text,
  fingerprint text,
  not_after bigint,
  first_used_at bigint,
  revoked_at bigint,
  revoked_by uuid,
  reason text,
  primary key (ca_id, serial_number)
);
create index device_certificates_device on device_certificates (device_id) where device_id is not null;
`;
