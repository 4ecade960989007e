/**
 * Sign-ins of users, to be listed and ended; what is valid is decided by `revoked_tokens`, `users.not_before` and the
 * tokens themselves, so a missing row ends nothing. `token_id` is what a revocation names, `ancestors` a list of the
 * `token_id`s that the session was derived from. Sign-ins before `not_before` have ended. Builds that do not know the
 * table or the column accept what the new ones accept.
 */
export const userSessions = `
create table user_sessions (
  id uuid primary key,
  token_id text not null unique,
  user_id uuid not null references users,
  kind text not null,
  client text,
  address text,
  ancestors jsonb not null,
  signed_in_at bigint,
  created_at bigint not null,
  last_used_at bigint not null,
  expires_at bigint not null
) with (fillfactor = 80);
create index user_sessions_of_user on user_sessions (user_id, created_at, id);
create index user_sessions_expiry on user_sessions (expires_at);

alter table users add column not_before bigint;
`;
