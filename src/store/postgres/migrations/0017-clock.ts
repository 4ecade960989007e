/**
 * `used_session_tokens`: CONNECT tokens that opened a session, so that each is valid once, in all processes. The key
 * begins with the time, by which they are pruned. `pruning`: time of the last pruning, by the clock of that time;
 * initialised with the newest journal entry.
 */
export const clock = `
create table used_session_tokens (
  signed_at bigint not null,
  device_id uuid not null,
  nonce text not null,
  primary key (signed_at, device_id, nonce)
);
create table pruning (
  one boolean primary key default true check (one),
  last_at bigint not null
);
insert into pruning (last_at) select max(at) from journal having max(at) is not null;
`;
