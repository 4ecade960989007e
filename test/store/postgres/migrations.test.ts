import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { actorTables, tableOf } from '../../../src/store/postgres/actor-tables.ts';
import { commandStore } from '../../../src/store/postgres/commands.ts';
import { connectPglite, connectPostgres } from '../../../src/store/postgres/connect.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { migrate, SchemaMismatch } from '../../../src/store/postgres/migrate.ts';
import { type Migration, migrations } from '../../../src/store/postgres/migrations.ts';
import { createStore } from '../../../src/store/postgres/store.ts';
import {
  commandCommit,
  deviceCommit,
  newId,
  nextCommit,
  planCommit,
  tenantCommit,
} from '../../support/actor-commits.ts';
import { freshDatabase, openPglite, openPostgres } from '../../support/store.ts';

const serverUrl = inject('postgresUrl');
const folders: string[] = [];
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-migrations-'));
  folders.push(folder);
  return folder;
}

/** Files of a database without migrations, which PGlite creates in seconds: copied for each test. */
let emptyFiles: Promise<string> | undefined;

async function createEmptyFiles(): Promise<string> {
  const folder = temporaryFolder();
  await (await connectPglite(folder, { template: null })).close();
  return folder;
}

async function emptyPglite(): Promise<Database[]> {
  emptyFiles ??= createEmptyFiles();
  const folder = temporaryFolder();
  cpSync(await emptyFiles, folder, { recursive: true });
  const database = await connectPglite(folder);
  closing.push(() => database.close());
  return [database];
}

async function emptyPostgres(): Promise<Database[]> {
  const { url, drop } = await freshDatabase(serverUrl ?? '', true);
  const databases = [connectPostgres(url), connectPostgres(url)];
  closing.push(drop, ...databases.map((database) => () => database.close()));
  return databases;
}

const backends = [
  { name: 'PGlite', open: emptyPglite, openMigrated: openPglite },
  ...(serverUrl === null
    ? []
    : [{ name: 'PostgreSQL', open: emptyPostgres, openMigrated: () => openPostgres(serverUrl) }]),
];

const note: Migration = {
  id: (migrations.at(-1)?.id ?? 0) + 1,
  name: 'note',
  sql: 'create table notes (text text not null)',
  change: 'expand',
};
const tables = async (database: Database): Promise<string[]> =>
  (await database.read<{ name: string }>({ text: 'select relname as name from pg_class where relkind = $$r$$' })).map(
    (row) => row.name,
  );

const insertRows = (database: Database, table: string, rows: object[]) =>
  database.write({
    text: `insert into ${table} select * from jsonb_populate_recordset(null::${table}, $1)`,
    values: [JSON.stringify(rows)],
  });

/** Properties of a table that a rename of a column must keep. */
const storageOf = (database: Database, table: string) =>
  database.read({
    text: `select pg_relation_filenode($1) as file, to_jsonb(a) - 'attname' as live, (
        select array_agg(pg_get_indexdef(indexrelid) order by indexrelid) from pg_index where indrelid = attrelid
      ) as indexes
      from pg_attribute a where attrelid = $1::regclass and attname in ('moving', 'live')`,
    values: [table],
  });

describe.each(backends)('migrations on $name', ({ open, openMigrated }) => {
  async function migrated(): Promise<Database> {
    const { backend, close } = await openMigrated();
    closing.push(close);
    return backend.database;
  }

  describe('of an empty database', () => {
    let databases: Database[];
    // In a hook, because of its separate time limit: creating an embedded database takes seconds.
    beforeEach(async () => {
      databases = await open();
    });

    it('are applied once, for any number of concurrent starts', async () => {
      const applied = await Promise.all([...databases, ...databases].map((database) => migrate(database)));
      expect(applied.reduce((sum, { applied }) => sum + applied, 0)).toBe(migrations.length);
      const [database] = databases;
      if (!database) throw new Error('no database');
      const transactions = vi.spyOn(database, 'transaction');
      expect(await migrate(database)).toEqual({ applied: 0, waiting: [] });
      expect(transactions).toHaveBeenCalledTimes(1);
      expect(await tables(database)).toEqual(expect.arrayContaining(['devices', 'commands', 'tenants', 'journal']));

      expect(await migrate(database, { known: [...migrations, note] })).toMatchObject({ applied: 1 });
      await expect(migrate(database)).rejects.toThrow(/start a newer version/);

      const changed = [...migrations, { ...note, sql: `${note.sql};` }];
      const refusal = migrate(database, { known: changed });
      await expect(refusal).rejects.toBeInstanceOf(SchemaMismatch);
      await expect(refusal).rejects.toThrow(/Migration \d+ \(note\).*must never be changed/);

      const broken = {
        id: note.id + 1,
        name: 'broken',
        sql: 'create table half (id integer); select no_such_function()',
        change: 'expand' as const,
      };
      await expect(migrate(database, { known: [...migrations, note, broken] })).rejects.toThrow(/no_such_function/);
      expect(await tables(database)).not.toContain('half');
      expect(await migrate(database, { known: [...migrations, note] })).toMatchObject({ applied: 0 });
    });
  });

  it('index no column that every command changes, so that its update stays on its page', async () => {
    const database = await migrated();
    const indexes = await database.read<{ definition: string }>({
      text: "select pg_get_indexdef(indexrelid) as definition from pg_index where indrelid = 'commands'::regclass",
    });
    expect(indexes.length).toBeGreaterThan(4);
    const changing = ['version', 'value', 'since', 'live', ...tableOf('command').liveColumns];
    for (const { definition } of indexes) {
      const named = definition.replace(/^create \S* ?index \S+ on \S+/i, '').match(/\w+/g);
      expect(changing.filter((column) => named?.includes(column))).toEqual([]);
    }
  });

  it('create no statistics of the JSON of actors and their journal', async () => {
    const database = await migrated();
    await database.write({
      text: `insert into journal (kind, id, version, tenant_id, at, by, event)
        select 'device', gen_random_uuid(), 1, gen_random_uuid(), n, '{}', 'made' from generate_series(1, 100) n`,
    });
    await database.write({ text: 'analyze journal' });
    const known = await database.read<{ attname: string }>({
      text: "select attname from pg_stats where tablename = 'journal' order by attname",
    });
    expect(known.map(({ attname }) => attname)).toEqual([
      'at',
      'event',
      'id',
      'kind',
      'position',
      'tenant_id',
      'version',
    ]);
    const wanted = await database.read<{ place: string }>({
      text: `select distinct attrelid::regclass::text as place from pg_attribute
        where attstattarget = 0 and attnum > 0 and attrelid::regclass::text !~ '^(pg_|information)' order by 1`,
    });
    expect(wanted.map(({ place }) => place)).toEqual(['commands', 'devices', 'journal', 'outbox', 'plans', 'tenants']);
  });
});

/** What SQL does with stored rows is the same on both: PostgreSQL, if it is installed; `EVERY_CASE=1` tries each. */
const ofRows = process.env.EVERY_CASE === '1' ? backends : backends.slice(-1);

describe.each(ofRows)('migrations of stored rows on $name', ({ open }) => {
  let databases: Database[];
  beforeEach(async () => {
    databases = await open();
  });

  it('keep existing stored responses with the owner of their secret, devices, commands, and open rows', async () => {
    const [database] = databases as [Database];
    await migrate(database, { known: migrations.slice(0, 3) });
    await database.write({
      text: `insert into idempotency
          (digest, principal, method, path, key, body_hash, state, status, answer, device_id, expires_at)
        values ('d', 'p', 'POST', '/x', 'k', 'h', 'done', 201, 'sealed', '0195d9a2-7f00-7000-8000-000000000001', 5)`,
    });
    await migrate(database, { known: migrations.slice(0, 9) });
    const deviceId = newId();
    const device = {
      ...{
        id: deviceId,
        tenant_id: newId(),
        version: 3,
        machine_version: 1,
        value: 'made',
        context: { name: 'Lamp' },
        since: 4,
      },
      ...{
        moving: { state: { on: true } },
        quarantine: null,
        device_type: 'smart_light',
        home_id: newId(),
        room_id: null,
      },
      ...{ category: 'light', firmware: '1.0', revoked: false, deleted: false, online: true, created_at: 5 },
    };
    const command = (status: string, verification: string) => ({
      ...{ id: newId(), tenant_id: device.tenant_id, version: 2, machine_version: 2, value: { lifecycle: status } },
      ...{
        context: { verification: { expected: { on: true }, observed: null } },
        moving: null,
        since: 6,
        quarantine: null,
      },
      ...{ device_id: deviceId, action: 'turn_on', status, verification, critical: false, written: true },
      ...{ token_hash: status === 'awaiting_confirmation' ? 'hash' : null, created_at: 7 },
    });
    const waiting = command('awaiting_confirmation', 'idle');
    const dispatched = command('dispatched', 'pending');
    const late = command('timed_out', 'pending');
    const over = { ...command('failed', 'unverifiable'), quarantine: 'why' };
    const put = (table: string, rows: object[]) => insertRows(database, table, rows);
    await put('devices', [device]);
    await put('commands', [waiting, dispatched, late, over]);
    const timer = { kind: 'command', timer_id: 'over', event: 'over', due_at: 9 };
    await put('timers', [{ ...timer, kind: 'device', id: deviceId }]);
    await put(
      'timers',
      [waiting, dispatched, late].map(({ id }) => ({ ...timer, id })),
    );
    await migrate(database);

    expect(await database.read({ text: 'select digest, subject, answer from idempotency' })).toEqual([
      { digest: 'd', subject: '0195d9a2-7f00-7000-8000-000000000001', answer: 'sealed' },
    ]);
    const rows = (table: string) =>
      database.read<{ row: object }>({ text: `select to_jsonb(t) as row from ${table} t order by id` });
    const renamed = ({ moving, ...row }: { moving: object | null }) => ({ row: { ...row, live: moving } });
    expect(await rows('devices')).toEqual([renamed(device)]);
    expect(await rows('commands')).toEqual([waiting, dispatched, late, over].map(renamed));
    const commands = commandStore(database, { batchSize: 2 });
    expect(await commands.open(deviceId)).toEqual([waiting.id, dispatched.id]);
    expect(await commands.deliverable(deviceId)).toEqual([dispatched.id]);
    expect((await commands.awaitingVerification()).map(({ commandId }) => commandId)).toEqual([dispatched.id, late.id]);
    await expect(put('commands', [over])).rejects.toThrow();
  });

  it('rename the column of live contexts without a rewrite; stored actors are read and updated as before', async () => {
    const [database] = databases as [Database];
    await migrate(database, { known: migrations.filter(({ id }) => id <= 17) });
    const commits = [deviceCommit, commandCommit, planCommit, tenantCommit].map((commit) =>
      commit({ fixed: { name: 'fixed' }, live: { count: 1 } }),
    );
    for (const { ref, tenantId, version, machineVersion, value, fixed, live, columns, since } of commits) {
      const actor = { ...ref, tenant_id: tenantId, version, machine_version: machineVersion, value, since };
      const separate = { ...actor, ...columns, context: fixed, moving: live };
      const together = { ...separate, id: newId(), slug: 'together', context: { ...fixed, ...live }, moving: null };
      await insertRows(database, tableOf(ref.kind).name, [separate, together]);
    }
    const tableNames = actorTables.map(({ name }) => name);
    const storage = () => Promise.all(tableNames.map((name) => storageOf(database, name)));
    const before = await storage();
    expect(before.map((rows) => rows.length)).toEqual([1, 1, 1, 1]);
    await migrate(database);
    expect(await storage()).toEqual(before);

    const { actors } = createStore(database);
    for (const { kind, name } of actorTables) {
      const ids = (await database.read<{ id: string }>({ text: `select id from ${name}` })).map(({ id }) => id);
      const contexts = (await actors.load(kind, ids)).map(({ context }) => context);
      expect(contexts).toMatchObject(Array.from({ length: 2 }, () => ({ name: 'fixed', count: 1 })));
    }
    const next = commits.map((commit) => nextCommit(commit, { fixedUnchanged: true, live: { count: 2 } }));
    expect(await actors.commit(next)).toEqual({ lost: [] });
    for (const { ref } of next) {
      const [actor] = await actors.load(ref.kind, [ref.id]);
      expect(actor).toMatchObject({ version: 2, context: { name: 'fixed', count: 2 } });
    }
  });
});

describe.skipIf(serverUrl === null)('the migration that rewrites devices and commands', () => {
  it('keeps permissions on devices and commands', async () => {
    const [database] = (await emptyPostgres()) as [Database];
    await migrate(database, { known: migrations.slice(0, 9) });
    await database.write({ text: 'grant select on devices, commands to public' });
    await database.write({ text: 'grant select, update on commands to pg_monitor with grant option' });
    const granted = () =>
      database.read<{ grant: string }>({
        text: `select concat_ws(' ', table_name, grantee, privilege_type, is_grantable) as grant
          from information_schema.role_table_grants where table_name in ('devices', 'commands')
            and grantee in ('PUBLIC', 'pg_monitor') order by 1`,
      });
    const before = await granted();
    expect(before).toHaveLength(4);
    await migrate(database);
    expect(await granted()).toEqual(before);
  });

  it('loses no concurrent write', async () => {
    const [database, another] = (await emptyPostgres()) as [Database, Database];
    await migrate(database, { known: migrations.slice(0, 9) });
    let migrated: Promise<unknown> | undefined;
    await another.transaction(async (query) => {
      await query(`insert into devices (id, tenant_id, version, machine_version, value, context, since, device_type, revoked, deleted, online, created_at)
        values (gen_random_uuid(), gen_random_uuid(), 1, 1, '1', '{}', 1, 'smart_light', false, false, false, 1)`);
      migrated = migrate(database);
      await expect
        .poll(() => query("select from pg_locks where relation = 'devices'::regclass and not granted"))
        .toHaveLength(1);
    });
    await migrated;
    expect(await database.read({ text: 'select id from devices' })).toHaveLength(1);
  });
});
