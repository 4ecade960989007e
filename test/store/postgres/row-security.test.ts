import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import type { DeviceCa } from '../../../src/domain/device-ca.ts';
import type { Uuid } from '../../../src/domain/values.ts';
import type { Store } from '../../../src/store/contract.ts';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import type { Database, Statement } from '../../../src/store/postgres/database.ts';
import { migrate } from '../../../src/store/postgres/migrate.ts';
import { createStore } from '../../../src/store/postgres/store.ts';
import { deviceCommit, newId } from '../../support/actor-commits.ts';
import { ReportingDevice } from '../../support/history-model.ts';
import { enableRowSecurity, ownedDatabase } from '../../support/store.ts';

const serverUrl = inject('postgresUrl');

describe.runIf(serverUrl)('row-level security', () => {
  const [a, b] = [newId(), newId()];
  let database: Database;
  let store: Store;
  let url: string;
  let owner: string;
  const closing: (() => Promise<unknown>)[] = [];
  const home = (tenantId: Uuid, name: string) => ({ id: newId(), tenantId, name, timezone: null, createdAt: 1_000 });
  const bHome = home(b, 'B');

  beforeAll(async () => {
    const owned = await ownedDatabase(serverUrl ?? '');
    ({ url, owner } = owned);
    database = connectPostgres(url);
    closing.push(() => database.close(), owned.drop);
    await migrate(database);
    await enableRowSecurity(database);
    store = createStore(database);
    for (const tenantId of [a, b]) await store.actors.commit([deviceCommit({ tenantId })]);
    await store.records.insertHome(home(a, 'A'), null);
    await store.records.insertHome(bHome, null);
  });
  afterAll(async () => {
    for (const close of closing) await close();
  });

  const read = (text: string, tenantId: Uuid, values: readonly string[] = []) =>
    database.read<Record<string, unknown>>({ text, values, scope: { tenantId } });

  it('has a policy in each table that has a tenant', async () => {
    const unprotected = await database.read({
      text: `select c.relname::text as name from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and a.attname = 'tenant_id' and not c.relispartition
          and (not c.relrowsecurity or not exists (select from pg_policy p where p.polrelid = c.oid))`,
    });
    // A migration that adds a table with a tenant also enables row-level security and creates the policy.
    expect(unprotected).toEqual([]);
    const policies = await database.read<{ condition: string }>({
      text: `select distinct pg_get_expr(polqual, polrelid) as condition from pg_policy p
        join pg_attribute a on a.attrelid = p.polrelid and a.attname = 'tenant_id'`,
    });
    expect(policies).toHaveLength(1);
  });

  it('gives no privilege for a partition: its rows are read through the table, which has the policy', async () => {
    const c = newId();
    const device = new ReportingDevice(store, c);
    await device.register();
    await device.report(1_000, { values: { level: 1 } });
    expect(await read('select tenant_id from samples', c)).toEqual([{ tenant_id: c }]);
    expect(await read('select tenant_id from samples', b)).toEqual([]);
    const partitions = await database.read<{ name: string }>({
      text: `select relname::text as name from pg_class where relispartition and relkind = 'r'`,
    });
    expect(partitions.map(({ name }) => name)).toContain('samples_default');
    for (const { name } of partitions)
      await expect(read(`select 1 as one from ${name}`, c), name).rejects.toThrow('permission denied');
  });

  it('shows a statement without its condition the rows of one tenant, and none without a tenant', async () => {
    expect(await read('select tenant_id from devices', a)).toEqual([{ tenant_id: a }]);
    expect(await read('select name from homes order by name', a)).toEqual([{ name: 'A' }]);
    expect(await read('select name from homes', b)).toEqual([{ name: 'B' }]);
    expect(await read('select h.name from devices d cross join homes h', b)).toEqual([{ name: 'B' }]);
    expect(await read('select name from homes', newId())).toEqual([]);
    expect(await read('select name from homes where tenant_id = $1::uuid', a, [b])).toEqual([]);
    const unset = database.read({ text: 'select name from homes where $1', values: [true], scope: { tenantId: '' } });
    expect(await unset).toEqual([]);
    expect(await database.read({ text: 'select name from homes' })).toHaveLength(2);
  });

  it('lets no statement change, delete or insert rows of another tenant', async () => {
    const scope = { tenantId: a };
    const values = [bHome.id];
    const write = (text: string) => database.write({ text, values, scope });
    expect(await write('update homes set name = $1 returning name')).toEqual([{ name: bHome.id }]);
    expect(await write('update homes set name = name where id = $1 returning id')).toEqual([]);
    expect(await write('delete from homes where id = $1 returning id')).toEqual([]);
    const insert = database.write({
      text: 'insert into homes (id, tenant_id, name, created_at) values ($1, $2, $3, 1)',
      values: [newId(), b, 'of A'],
      scope,
    });
    await expect(insert).rejects.toThrow(/row-level security policy for table "homes"/);
    await expect(database.write({ text: 'update homes set tenant_id = $1', values: [b], scope })).rejects.toThrow(
      /row-level security policy/,
    );
    expect((await store.records.home(b, bHome.id))?.name).toBe('B');
  });

  it('refuses statements of a tenant on tables of all tenants', async () => {
    for (const table of ['device_keys', 'timers', 'outbox', 'user_sessions', 'nodes', 'migrations', 'cache_entries']) {
      await expect(read(`select 1 from ${table}`, a)).rejects.toThrow(`permission denied for table ${table}`);
    }
    await expect(read('delete from devices', a)).rejects.toThrow('permission denied for table devices');
    await expect(read('delete from audit', a)).rejects.toThrow('permission denied for table audit');
  });

  it('limits what is done with the CAs of a tenant, except lookups by CA, subject or device', async () => {
    const unscoped: (string | undefined)[] = [];
    const record = ({ name, scope }: Statement) => scope === undefined && unscoped.push(name);
    const { read: send, write: change } = database;
    const reads = vi.spyOn(database, 'read').mockImplementation((statement) => {
      record(statement);
      return send.call(database, statement) as never;
    });
    const writes = vi.spyOn(database, 'write').mockImplementation((statement) => {
      record(statement);
      return change.call(database, statement) as never;
    });
    const cas = store.deviceCas;
    const [id, deviceId] = [newId(), newId()];
    const ca: DeviceCa = {
      ...{ id, tenantId: a, name: 'Factory', status: 'active', certificate: 'PEM', fingerprint: 'f' },
      ...{ subjectHash: newId(), publicKeyHash: newId(), subject: 'CN=CA', notAfter: 99, registration: null },
      ...{ createdBy: newId(), createdAt: 10 },
    };
    const subject = { caId: id, commonName: 'lamp', tenantId: a, deviceId, boundBy: null, boundAt: 10 };
    const used = { caId: id, serialNumber: '01', tenantId: a, deviceId, commonName: 'lamp', fingerprint: 'f' };
    const revocation = { tenantId: a, caId: id, serialNumber: '01', revokedAt: 12, revokedBy: newId(), reason: null };
    try {
      await cas.beginVerification({ tenantId: a, codeHash: 'c', createdBy: newId(), expiresAt: 20 }, 2, 10);
      expect(await cas.insert(ca, { codeHash: 'c', now: 10, mostOfSubject: 2 })).toBe('inserted');
      expect([await cas.list(a), await cas.find(a, id), await cas.count(a)]).toEqual([[ca], ca, 1]);
      expect([await cas.list(b), await cas.find(b, id), await cas.count(b)]).toEqual([[], null, 0]);
      expect(await cas.bind(subject, null)).toBe(true);
      await cas.recordCertificate({ ...used, notAfter: 99 }, 11, { since: 0, most: 5 });
      expect(await cas.revoke(revocation, 5)).toBe('revoked');
      expect(await cas.update({ ...ca, name: 'Other' })).toBe(true);
      await cas.beginVerification({ tenantId: a, codeHash: 'd', createdBy: newId(), expiresAt: 20 }, 2, 10);
      expect(await cas.renew({ ...ca, notAfter: 199 }, { codeHash: 'd', now: 10 })).toBe('renewed');
      const unbinding = { caId: id, commonName: 'lamp', tenantId: a, deviceId, unboundBy: newId(), unboundAt: 12 };
      expect(await cas.unbind(unbinding, 0)).toBe(true);
      expect(await cas.bind(subject, null)).toBe(true);
      expect(await cas.delete(a, id, 13)).toBe(true);
    } finally {
      reads.mockRestore();
      writes.mockRestore();
    }
    expect(unscoped).toEqual(['device_ca_insert', 'device_certificate']);
  });

  it('limits stored answers to the one that the statement writes', async () => {
    const row = (key: string) => ({
      ...{ principal: 'user:1', method: 'POST', path: '/v1/homes', key, bodyHash: 'h', state: 'done' as const },
      ...{ status: 201, answer: `sealed ${key}`, subject: null, expiresAt: 9_000 },
    });
    await store.records.insertHome(home(a, 'First'), row('one'));
    await store.records.insertHome(home(a, 'Second'), row('two'));
    expect((await store.idempotency.find(row('two')))?.answer).toBe('sealed two');
    expect(await read('select answer from idempotency', a)).toEqual([]);
    const again = store.records.insertHome(home(a, 'Third'), row('one'));
    await expect(again).rejects.toThrow('another attempt stored a response');
    const [stored] = await database.read<{ digest: string }>({
      text: 'select digest from idempotency where key = $1',
      values: ['one'],
    });
    const scope = { tenantId: a, idempotencyKey: stored?.digest ?? '' };
    const own = database.read({ text: 'select answer from idempotency where $1', values: [true], scope });
    expect(await own).toEqual([{ answer: 'sealed one' }]);
  });

  it('ends with each statement, also with one that fails', async () => {
    const one = connectPostgres(url);
    closing.unshift(() => one.close());
    await enableRowSecurity(one);
    const count = () =>
      one.read<{ n: number; role: string }>({ text: 'select count(*) as n, current_user::text as role from homes' });
    const [before] = await count();
    const failing = one.read({ text: 'select 1 / length($1) as n', values: [''], scope: { tenantId: a } });
    await expect(failing).rejects.toThrow('division by zero');
    const unparsed = one.read({ name: 'broken', text: 'select nothing($1)', values: [''], scope: { tenantId: a } });
    await expect(unparsed).rejects.toThrow(/nothing/);
    // The name is not taken for prepared after the error.
    const again = one.read({ name: 'broken', text: 'select nothing($1)', values: [''], scope: { tenantId: a } });
    await expect(again).rejects.toThrow(/nothing/);
    expect(await count()).toEqual([before]);
    expect(before?.role).toBe(owner);
    const mixed = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        n % 3 === 0
          ? one.read<{ n: number }>({ name: 'all', text: 'select count(*) as n from homes' })
          : one.read<{ n: number }>({
              ...{ name: 'own', text: 'select count(*) as n from homes where $1', values: [true] },
              scope: { tenantId: n % 3 === 1 ? b : newId() },
            }),
      ),
    );
    expect(mixed.map(([row]) => row?.n)).toEqual(Array.from({ length: 60 }, (_, n) => [before?.n, 1, 0][n % 3]));
  });

  it('leaves no open transaction behind a statement that the driver refuses to send', async () => {
    const one = connectPostgres(url);
    closing.unshift(() => one.close());
    await enableRowSecurity(one);
    const scope = { tenantId: a };
    await one.read({ name: 'named', text: 'select 1 where $1', values: [true], scope });
    const other = one.read({ name: 'named', text: 'select 2 where $1', values: [true], scope, noRetry: true });
    await expect(other).rejects.toThrow(/must be unique/);
    expect(await one.read({ text: 'select current_user::text as role' })).toEqual([{ role: owner }]);
  });

  it('reads the rows of tenants by an index', async () => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query('begin');
    await client.query(`select set_config('twinkeep.tenant', $1, true), set_config('role', $2, true)`, [
      ...[a, `${new URL(url).pathname.slice(1)}_tenant`],
    ]);
    await client.query('set local enable_seqscan = off');
    const { rows } = await client.query('explain select id from devices where not deleted order by created_at, id');
    await client.end();
    expect(JSON.stringify(rows)).toMatch(/devices_of_tenant.*Index Cond: \(tenant_id = /);
  });

  describe('with set_config for the service alone', () => {
    it('resists statements that try to leave the tenant', async () => {
      const name = new URL(url).pathname.slice(1);
      const attempts = [
        `select set_config('twinkeep.tenant', '${b}', false), count(*) as n from homes group by 1`,
        `select set_config('role', 'none', true), query_to_xml('select * from homes', true, true, '')`,
        `select query_to_xml('select set_config(''role'', ''none'', true)', true, true, '')`,
        `select query_to_xml('set role none', true, true, '')`,
      ];
      const admin = new pg.Client({ connectionString: `${serverUrl}/${name}` });
      await admin.connect();
      await admin.query('revoke execute on function pg_catalog.set_config(text, text, boolean) from public');
      await admin.query(`grant execute on function pg_catalog.set_config(text, text, boolean) to ${owner}`);
      await admin.end();
      for (const attempt of attempts) {
        await expect(read(attempt, a), attempt).rejects.toThrow(
          /permission denied for function set_config|not allowed/,
        );
      }
      expect(await read('select name from homes', b)).toEqual([{ name: 'B' }]);
    });
  });
});
