/**
 * The part that a node needs before it registers. The lock runs it before any migration, as `nodes`, so every statement
 * is repeatable.
 *
 * `number` is the key of the node's own advisory lock, which is held as long as its process lives; null for a process
 * that holds the whole database. `link` is the address for other nodes. A node owns shards only while it is `active`.
 */
export const clusterNodes = `
create sequence if not exists node_numbers as integer minvalue 1 cycle;
alter table nodes add column if not exists number integer;
alter table nodes add column if not exists link text;
alter table nodes add column if not exists state text not null default 'active';
`;

/** Timers and undelivered outputs are loaded by the owner of their shard: the last byte of their actor's tenant. */
export const shardColumns = `
${clusterNodes}
alter table timers add column shard smallint not null default 0;
alter table outbox add column shard smallint not null default 0;

create temporary table actor_shards on commit drop as
  select id, get_byte(uuid_send(tenant_id), 15)::smallint as shard from (
    select id, tenant_id from devices
    union all select id, tenant_id from commands
    union all select id, tenant_id from plans
    union all select id, tenant_id from tenants) actors
  where id in (select id from timers union select id from outbox);
update timers t set shard = a.shard from actor_shards a where a.id = t.id;
update outbox o set shard = a.shard from actor_shards a where a.id = o.id;
`;
