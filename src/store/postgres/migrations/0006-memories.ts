/**
 * Memories of agents. `search` has the lexemes of subject, content and tags, as `domain/full-text.ts` splits them, and
 * the tenant's id as one more lexeme: the index then leads to the tenant's own rows, however common a lexeme is among
 * all tenants, and a query of negations only does not scan the whole index. No pending list: the embedded database has
 * no background process to merge it.
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
