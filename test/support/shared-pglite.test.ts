import { expect, it } from 'vitest';
import type { Database } from '../../src/store/postgres/database.ts';
import { connectSharedPglite } from './shared-pglite.ts';

const value = async (database: Database, text: string): Promise<unknown> =>
  (await database.read<{ value: unknown }>({ text: `select (${text}) as value` }))[0]?.value;

it('the PGlite that suites share keeps neither rows, sequences, settings, temporary tables nor locks', async () => {
  const queries = {
    rows: 'select count(*)::int from pruning',
    settings: "current_setting('search_path')",
    temporary: "to_regclass('pg_temp.left_over')::text",
    locks: "select count(*)::int from pg_locks where locktype = 'advisory'",
    statements: "select count(*)::int from pg_prepared_statements where name = 'left_over'",
    statistics: "select count(*)::int from pg_statistic where starelid = 'pruning'::regclass",
    sequence: "select coalesce(sum(last_value), 0)::int from pg_sequences where schemaname = 'public'",
  };
  const read = async (database: Database) =>
    Object.fromEntries(
      await Promise.all(Object.entries(queries).map(async ([name, text]) => [name, await value(database, text)])),
    );
  const first = await connectSharedPglite();
  const before = await read(first);
  await first.transaction(async (query) => {
    await query('insert into pruning (last_at) values (1)');
    await query(`select nextval(pg_get_serial_sequence(relname, 'seq')) from pg_class
      where oid in (select attrelid from pg_attribute where attname = 'seq' and attidentity = 'a') and relkind = 'r'`);
    await query("set search_path = 'elsewhere', 'public'");
    await query('create temporary table left_over (id int)');
    await query('prepare left_over as select 1');
    await query('select pg_advisory_lock(7)');
    await query('analyze pruning');
  });
  const changed = await read(first);
  expect(Object.keys(changed).filter((name) => changed[name] === before[name])).toEqual([]);
  await expect(connectSharedPglite()).rejects.toThrow('has not closed');
  await first.close();

  const second = await connectSharedPglite();
  expect(await read(second)).toEqual(before);
  await second.close();
});
