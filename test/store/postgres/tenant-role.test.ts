import pg from 'pg';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { migrate } from '../../../src/store/postgres/migrate.ts';
import { type Migration, SCHEMA_LEVEL } from '../../../src/store/postgres/migrations.ts';
import { checkTableOwner, NotTableOwner, prepareTenantRole } from '../../../src/store/postgres/tenant-role.ts';
import { WaitingContracts } from '../../../src/store/postgres/waiting-contracts.ts';
import { newId } from '../../support/actor-commits.ts';
import { slow } from '../../support/slow.ts';
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
  it('is created by a service that may create roles, once for any number of processes', slow, async () => {
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

  it('is not used if policies do not apply to it', slow, async () => {
    const { database, role, owner, asAdmin } = await open('nocreaterole');
    await asAdmin(`create role ${role} nologin bypassrls role ${owner}`);
    expect(await prepareTenantRole(database)).toMatchObject({ problem: expect.stringContaining('bypass') });
  });

  const canRead = async (database: Database, role: string, table: string): Promise<boolean | undefined> => {
    const [row] = await database.read<{ granted: boolean }>({
      text: `select has_table_privilege($1::name, to_regclass($2), 'select') as granted`,
      values: [role, table],
    });
    return row?.granted;
  };

  it('gets what it needs in a table that a later migration adds, once the table has its policy', slow, async () => {
    const { database, role } = await open();
    await database.write({ text: 'create table notes (tenant_id uuid not null)' });
    await prepareTenantRole(database);
    expect(await canRead(database, role, 'notes')).toBe(false);
    await database.write({ text: 'alter table notes enable row level security' });
    await prepareTenantRole(database);
    expect(await canRead(database, role, 'notes')).toBe(false);
    await database.write({ text: 'create policy rows_of_tenant on notes using (tenant_id is not null)' });
    await prepareTenantRole(database);
    expect(await canRead(database, role, 'notes')).toBe(true);
  });

  it('gets what it needs in a table that a contract replaces, on the node that applies it', slow, async () => {
    const { database, role } = await open();
    await prepareTenantRole(database);
    const contract: Migration = {
      ...{ id: SCHEMA_LEVEL + 1, name: 'other signing', change: 'contract' },
      sql: `drop table firmware_signing;
        create table firmware_signing (tenant_id uuid primary key);
        alter table firmware_signing enable row level security;
        create policy rows_of_tenant on firmware_signing using (tenant_id is not null)`,
    };
    const contracts = new WaitingContracts(database, [contract], async () => {
      expect(await canRead(database, role, 'firmware_signing')).toBe(false);
      await prepareTenantRole(database);
    });
    expect(await contracts.apply()).toEqual([contract.id]);
    expect(await canRead(database, role, 'firmware_signing')).toBe(true);
  });

  it('has nothing to do with tables of other programs, nor have the migrations', async () => {
    const owned = await ownedDatabase(serverUrl ?? '');
    const name = new URL(owned.url).pathname.slice(1);
    const adminUrl = `${serverUrl}/${name}`;
    const database = connect(owned.url);
    closing.unshift(owned.drop);
    await run(adminUrl, 'create table t (tenant_id text); create table "Mixed" (tenant_id uuid)');
    await run(owned.url, 'create table "Own" (tenant_id uuid)');
    await migrate(database);
    const role = `${name}_tenant`;
    expect(await prepareTenantRole(database)).toEqual({ role });
    await run(adminUrl, 'create table devices_backup as select * from devices');
    await run(owned.url, 'create table devices_copy as select * from devices');
    // Another program may use row-level security too.
    await run(adminUrl, 'create policy rows_of_tenant on "Mixed"; alter table "Mixed" enable row level security');
    expect(await prepareTenantRole(database)).toEqual({ role });
    for (const table of ['t', '"Mixed"', '"Own"', 'devices_backup', 'devices_copy']) {
      expect(await canRead(database, role, table), table).toBe(false);
    }
    expect(await canRead(database, role, 'devices')).toBe(true);
    const secured = `select from pg_class where oid = 't'::regclass and relrowsecurity`;
    expect(await database.read({ text: secured })).toEqual([]);
  });

  it('can be used with a schema whose name has capital letters', async () => {
    const owned = await ownedDatabase(serverUrl ?? '');
    closing.unshift(owned.drop);
    await run(owned.url, 'create schema "My-App"');
    const url = new URL(owned.url);
    url.searchParams.set('options', '-c search_path="My-App"');
    const database = connect(url.href);
    await migrate(database);
    const role = `${url.pathname.slice(1)}_tenant`;
    expect(await prepareTenantRole(database)).toEqual({ role });
    database.setTenantRole(role);
    const statement = { text: 'select id from homes', scope: { tenantId: newId() } };
    expect(await database.read(statement)).toEqual([]);
  });

  it('is not used if its search path leads to other tables', slow, async () => {
    const { database, url, role } = await open();
    await prepareTenantRole(database);
    await run(url, `create schema ${role}; grant usage on schema ${role} to ${role}`);
    await run(url, `create table ${role}.devices (like public.devices)`);
    expect(await prepareTenantRole(database)).toMatchObject({ problem: expect.stringContaining('search path') });
    await run(url, `drop schema ${role} cascade`);
    expect(await prepareTenantRole(database)).toEqual({ role });
  });

  it('is not used, and gets nothing, if it can log in', async () => {
    const { database, role, owner, asAdmin } = await open();
    await asAdmin(`create role ${role} login role ${owner}`);
    expect(await prepareTenantRole(database)).toMatchObject({ problem: expect.stringContaining('can log in') });
    expect(await canRead(database, role, 'devices')).toBe(false);
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

  it('is of no use to a service that does not own the tables, which finds that out', slow, async () => {
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
