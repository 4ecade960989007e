import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { inject } from 'vitest';
import { connectThread } from '../../src/store/postgres/connect.ts';
import type { Database } from '../../src/store/postgres/database.ts';
import { PgliteThread } from '../../src/store/postgres/pglite/thread.ts';
import { copyPglite } from './pglite.ts';

/*
 * One embedded database for all suites of a worker: a new one takes half a second, and compiles for longer at its first
 * statements. Each suite gets a new connection, which discards the state of the session, and empty tables. A suite that
 * restarts, closes or migrates a database opens one for itself with `openPglite`.
 */

/** Keeps running when a connection to it is closed. It ends with its worker. */
class SharedThread extends PgliteThread {
  override async close(): Promise<void> {}
}

let thread: SharedThread | null = null;
let schema: string | undefined;
let inUse = false;

/**
 * Truncates the tables that have pages: each truncation creates new files, which takes 10 ms. Deleted rows would stay in
 * the files, and change the plans and the times of later statements.
 */
const EMPTY = `do $$ declare names text; begin
  select string_agg(format('%I', relname), ', ') into names from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace and relname not in ('migrations', 'expansions')
      and pg_relation_size(oid) > 0;
  if names is not null then execute 'truncate ' || names || ' cascade'; end if;
  perform setval(seqrelid, seqstart, false) from pg_sequence;
  delete from pg_statistic where starelid in (select oid from pg_class where relnamespace = 'public'::regnamespace);
end $$`;

/** Hash of all columns, indexes, constraints and functions. */
const SCHEMA = `select md5(string_agg(line, ';' order by line)) as schema from (
  select format('%s %s %s', attrelid::regclass, attname, atttypid) as line
    from pg_attribute join pg_class on pg_class.oid = attrelid
    where relnamespace = 'public'::regnamespace and attnum > 0
  union all select pg_get_constraintdef(oid) from pg_constraint where connamespace = 'public'::regnamespace
  union all select proname || prosrc from pg_proc where pronamespace = 'public'::regnamespace
) as lines`;

/** A connection to the worker's database, which is empty. Closing the connection allows the next suite to connect. */
export async function connectSharedPglite(): Promise<Database> {
  if (inUse) throw new Error('a suite of this worker has not closed the shared database');
  inUse = true;
  try {
    return await openEmpty();
  } catch (error) {
    inUse = false;
    throw error;
  }
}

async function openEmpty(): Promise<Database> {
  const isNew = thread === null;
  thread ??= new SharedThread(
    copyPglite(inject('pgliteTemplate'), mkdtempSync(join(inject('pgliteFolder'), 'worker-'))),
  );
  const database = connectThread(thread);
  if (!isNew) await database.transaction((query) => query(EMPTY));
  const [row] = await database.read<{ schema: string }>({ text: SCHEMA });
  schema ??= row?.schema;
  if (row?.schema !== schema) throw new Error('a suite changed the schema of the shared database');
  const close = database.close.bind(database);
  database.close = () => {
    inUse = false;
    return close();
  };
  return database;
}
