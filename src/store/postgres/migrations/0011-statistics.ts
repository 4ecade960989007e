/**
 * No statistics for JSON columns of actors and their journal: no plan uses them, sampling them is most of the cost of
 * ANALYZE, and growing tables are analysed repeatedly.
 */
export const statistics = `
do $$
declare one record;
begin
  for one in
    select a.attrelid::regclass as place, a.attname as name from pg_attribute a
    where a.attrelid in ('devices'::regclass, 'commands'::regclass, 'tenants'::regclass, 'plans'::regclass, 'journal'::regclass, 'outbox'::regclass)
      and a.atttypid in ('json'::regtype, 'jsonb'::regtype) and a.attnum > 0 and not a.attisdropped
  loop
    execute format('alter table %s alter column %I set statistics 0', one.place, one.name);
  end loop;
end $$;
`;
