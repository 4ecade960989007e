/**
 * The levels of builds, so that builds of two levels can run side by side (docs/decisions/0046). The lock runs this
 * before any migration, as `nodes`, so every statement is repeatable.
 *
 * `nodes.schema_level` is the newest migration that the build of the node knows, `nodes.data_level` the newest stored
 * form of actors that it can read; the defaults are those of the last build that does not write them.
 * `shards.data_level` is the highest level of the nodes that have owned the shard, which may have written that form. A
 * node that cannot read it does not become the owner: its statement changes no row. The trigger applies to all builds.
 *
 * The tables are locked in the order of the nodes' statements that change owners, so that there is no deadlock.
 */
export const levels = `
lock table shards, nodes in access exclusive mode;
alter table nodes add column if not exists schema_level integer not null default 22;
alter table nodes add column if not exists data_level integer not null default 1;
alter table shards add column if not exists data_level integer not null default 1;

create or replace function keep_data_level() returns trigger language plpgsql as $$
declare
  level integer := coalesce((select n.data_level from nodes n where n.id = new.owner), 1);
begin
  if tg_op = 'UPDATE' then
    if level < old.data_level then return null; end if;
    level := greatest(level, old.data_level);
  end if;
  new.data_level := greatest(level, new.data_level);
  return new;
end $$;
drop trigger if exists keep_data_level on shards;
create trigger keep_data_level before insert or update of owner on shards
  for each row execute function keep_data_level();
`;
