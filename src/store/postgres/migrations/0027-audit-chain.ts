/**
 * Where an audited action came from: the client's address, and the client as it calls itself. Null in rows of builds that
 * do not know it. `count` is above 1 in a row that stands for the repetitions of an earlier one.
 *
 * `position` is the order in which audited entries were written, over both tables; null in rows from before, which are in
 * no chain. Its default applies to builds that do not know the column, and assigns the transaction's id first: so a
 * transaction that has a position is among the running ones until it ends. Migration 36 makes the indexes.
 *
 * `audit_blocks` are the sealed entries. `audit_heads` has the newest block, apart from the blocks, and the newest one that
 * retention has deleted: what its hash covers is null until one is deleted. Their `tenant_id` is the nil UUID for the
 * entries of the service. Entries before `expired_before` may have been deleted by retention.
 */
export const auditChain = `
alter table audit add column address text;
alter table audit add column client text;
alter table audit add column count integer not null default 1;

create sequence audit_positions;
alter table audit add column position bigint;
alter table audit alter column position
  set default case when pg_current_xact_id() is not null then nextval('audit_positions') end;
alter table journal add column position bigint;
alter table journal alter column position
  set default case when pg_current_xact_id() is not null then nextval('audit_positions') end;

create table audit_blocks (
  tenant_id uuid not null,
  sequence bigint not null,
  position bigint not null,
  entries integer not null,
  first_at bigint not null,
  last_at bigint not null,
  digest text not null,
  previous text not null,
  hash text not null,
  primary key (tenant_id, sequence)
);
create index audit_blocks_expiry on audit_blocks (last_at);
create table audit_heads (
  tenant_id uuid primary key,
  sequence bigint not null,
  position bigint not null,
  hash text not null,
  removed_sequence bigint not null default 0,
  removed_position bigint not null default 0,
  removed_hash text not null default repeat('0', 64),
  removed_entries integer,
  removed_first_at bigint,
  removed_last_at bigint,
  removed_digest text,
  removed_previous text
);
alter table pruning add column expired_before bigint;
`;
