/**
 * The live fields of a context have their own column and are written without the rest. They are always read as a whole:
 * `json` is validated but not parsed into parts. Older rows have all members in `context`, so a single member is looked
 * up in both.
 */
export const liveContext = `
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
