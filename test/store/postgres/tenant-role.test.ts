import pg from 'pg';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { migrate } from '../../../src/store/postgres/migrate.ts';
import { checkTableOwner, NotTableOwner, prepareTenantRole } from '../../../src/store/postgres/tenant-role.ts';
import { ownedDatabase } from '../../support/store.ts';

const serverUrl = inject('postgresUrl');
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(attributes?: string) {
  const owned = await ownedDatabase(serverUrl ?? '', attributes);
  const database = connect(owned.url);
  closing.unshift(owned.drop);
  await migrate(database);
  return { ...owned, database, role: `${new URL(owned.url).pathname.slice(1)}_tenant` };
}

function connect(url: string): Database {
  const database = connectPostgres(url);
  closing.push(() => database.close());
  return database;
}

async function run(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

describe.runIf(serverUrl)('the role of tenants', () => {
  it('is created by a service that may create roles, once for any number of processes', async () => {
    const { database, url, role } = await open();
    const results = await Promise.all([database, connect(url), database].map(prepareTenantRole));
    expect(results).toEqual([{ role }, { role }, { role }]);
    const [found] = await database.read({
      text: 'select rolcanlogin, rolsuper, rolbypassrls, rolinherit from pg_roles where rolname = $1',
      values: [role],
    });
    expect(found).toMatchObject({ rolcanlogin: false, rolsuper: false, rolbypassrls: false });
  });

  it('can be created by an administrator instead', async () => {
    const { database, role, owner, asAdmin } = await open('nocreaterole');
    expect(await prepareTenantRole(database)).toEqual({ problem: 'permission denied to create role' });
    await asAdmin(`create role ${role} nologin`);
    expect(await prepareTenantRole(database)).toMatchObject({
      problem: expect.stringMatching(/admin option|permission/),
    });
    await asAdmin(`grant ${role} to ${owner}`);
    expect(await prepareTenantRole(database)).toEqual({ role });
  });

  it('is not used if policies do not apply to it', async () => {
    const { database, role, owner, asAdmin } = await open('nocreaterole');
    await asAdmin(`create role ${role} nologin bypassrls role ${owner}`);
    expect(await prepareTenantRole(database)).toMatchObject({ problem: expect.stringContaining('bypass') });
  });

  it('gets what it needs in a table that a later migration adds', async () => {
    const { database, role } = await open();
    await prepareTenantRole(database);
    await database.write({ text: 'create table notes (tenant_id uuid not null)' });
    const granted = async () =>
      database.read({ text: `select has_table_privilege($1, 'notes', 'select') as granted`, values: [role] });
    expect(await granted()).toEqual([{ granted: false }]);
    await prepareTenantRole(database);
    expect(await granted()).toEqual([{ granted: true }]);
  });

  it('reads no table without a policy except the times of presence', async () => {
    const { database, role } = await open();
    await prepareTenantRole(database);
    const unprotected = await database.read<{ name: string }>({
      text: `select relname::text as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v', 'p')
        and not relrowsecurity and has_table_privilege($1, oid, 'select, insert, update, delete')`,
      values: [role],
    });
    expect(unprotected).toEqual([{ name: 'presence' }]);
    const written = await database.read<{ name: string }>({
      text: `select relname::text as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
        and has_table_privilege($1, oid, 'insert, update, delete') order by 1`,
      values: [role],
    });
    const names = written.map(({ name }) => name);
    for (const name of ['devices', 'commands', 'tenants', 'journal', 'audit', 'audit_blocks']) {
      expect(names).not.toContain(name);
    }
  });

  it('is of no use to a service that does not own the tables, which finds that out', async () => {
    const { url, database, asAdmin, owner } = await open();
    const reporter = `${owner}_reporter`;
    await asAdmin(`create role ${reporter} login`);
    await run(url, `grant select on all tables in schema public to ${reporter}`);
    const reporterUrl = new URL(url);
    reporterUrl.username = reporter;
    const asReporter = connectPostgres(reporterUrl.href);
    await expect(checkTableOwner(asReporter)).rejects.toThrow(NotTableOwner);
    await asReporter.close();
    await run(url, `revoke select on all tables in schema public from ${reporter}`);
    await asAdmin(`drop role ${reporter}`);
    await expect(checkTableOwner(database)).resolves.toBeUndefined();
  });
});
