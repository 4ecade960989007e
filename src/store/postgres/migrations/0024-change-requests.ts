/**
 * `change_requests` has the changes that a confirmation is required for. `manifests.removed` has the actions above NORMAL
 * that earlier versions of a manifest had; null in rows of builds that do not know it, and without any.
 */
export const changeRequests = `
create table change_requests (
  id uuid primary key,
  tenant_id uuid not null,
  operation text not null,
  subject text not null,
  input jsonb not null,
  base text not null,
  preview jsonb not null,
  digest text not null,
  token_hash text not null,
  requested_by jsonb not null,
  created_at bigint not null,
  expires_at bigint not null,
  status text not null,
  decided_by jsonb,
  decided_at bigint,
  reason text
);
create index change_requests_of_tenant on change_requests (tenant_id, created_at, id);
create index change_requests_waiting on change_requests (tenant_id, created_at, id) where status = 'awaiting_confirmation';
alter table manifests add column removed jsonb;
`;
