/**
 * Entries of the cache where there is no Redis. They are logged, although losing them loses no state:
 * an unlogged table is empty after a crash of the server and on a promoted standby, and all browsers would be signed
 * out. `expires_at` is by the database's clock.
 */
export const cache = `
create table cache_entries (
  key text collate "C" primary key,
  value text not null,
  expires_at timestamptz not null
);
create index cache_entries_expiry on cache_entries (expires_at);
`;
