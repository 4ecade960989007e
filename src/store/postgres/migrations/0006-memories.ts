/**
 * What agents remember. `search` has the words of subject, content and tags, as `domain/full-text.ts` cuts them, and the
 * tenant's id as one more word: so the index leads to a tenant's own rows however common a word is among all tenants, and
 * a query of nothing but negations need not read the whole of it. Nobody merges a pending list in the embedded database.
 */
export const memories = `
create table memories (
  id uuid primary key,
  tenant_id uuid not null,
  kind text not null,
  subject text,
  content text not null,
  tags jsonb not null,
  source text not null,
  created_at bigint not null,
  expires_at bigint,
  search tsvector not null
);
create index memories_of_tenant on memories (tenant_id, created_at, id);
create index memories_search on memories using gin (search) with (fastupdate = off);
create index memories_expiry on memories (expires_at) where expires_at is not null;
`;
