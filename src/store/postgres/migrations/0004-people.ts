/**
 * API keys and invitations. Of a key, only prefix and hash are stored; the email of an invitation is compared ignoring
 * the case of ASCII letters (`collate "C"`). A stored response identifies the owner of its secret by a text: a device
 * id or a key.
 */
export const people = `
create table api_keys (
  prefix text primary key,
  tenant_id uuid not null,
  user_id uuid not null references users,
  name text not null,
  hash text not null,
  scopes jsonb not null,
  role_cap text not null,
  created_at bigint not null,
  last_used_at bigint,
  expires_at bigint,
  revoked_at bigint
) with (fillfactor = 80);
create index api_keys_of_tenant on api_keys (tenant_id, created_at, prefix);
create index api_keys_of_user on api_keys (user_id, created_at, prefix);

create table invitations (
  id uuid primary key,
  tenant_id uuid not null,
  email text not null,
  role text not null,
  invited_by uuid not null references users,
  created_at bigint not null,
  expires_at bigint not null
);
create unique index invitations_of_tenant on invitations (tenant_id, lower(email collate "C"));
create index invitations_to on invitations (lower(email collate "C"));
create index invitations_expiry on invitations (expires_at);

create table presented_tokens (
  digest text primary key,
  expires_at bigint not null
);
create index presented_tokens_expiry on presented_tokens (expires_at);

alter table idempotency rename column device_id to subject;
alter table idempotency alter column subject type text using subject::text;
alter index idempotency_of_device rename to idempotency_of_subject;
`;
