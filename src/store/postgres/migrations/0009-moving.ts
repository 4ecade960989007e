/**
 * What most transitions change of a context stands beside it, and is written without the rest. It is read back whole: as `json` it is
 * checked, but not taken apart. A row from before has all of it in `context`, and one member is sought in both.
 */
export const moving = `
do $$
declare kind text;
begin
  foreach kind in array array['devices', 'commands', 'tenants', 'plans'] loop
    execute format('alter table %I add column moving json', kind);
    begin
      execute format('alter table %I alter column moving set compression lz4', kind);
    exception when feature_not_supported then null;
    end;
  end loop;
end $$;
`;
