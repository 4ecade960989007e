import pg from 'pg';
import { afterAll, afterEach, describe, expect, inject, it, vi } from 'vitest';
import { type AdvisoryLock, AdvisoryLock as Lock } from '../../../src/store/lock/advisory-lock.ts';
import { sharedOwnership } from '../../../src/store/lock/shared-ownership.ts';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { SCHEMA_LOCK_TIMEOUT_MS } from '../../../src/store/postgres/lock-retry.ts';
import { MIGRATION_LOCK, type MigrateOptions, migrate, SchemaMismatch } from '../../../src/store/postgres/migrate.ts';
import { type Migration, migrations, SCHEMA_LEVEL } from '../../../src/store/postgres/migrations.ts';
import { WaitingContracts } from '../../../src/store/postgres/waiting-contracts.ts';
import { eventually } from '../../support/clock.ts';
import { longLivedLockParts, recordingLog } from '../../support/lock-parts.ts';
import { slow } from '../../support/slow.ts';
import { copyOf, type FreshDatabase, freshDatabase } from '../../support/store.ts';

const serverUrl = inject('postgresUrl');
const never = new AbortController().signal;
const closing: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const next = SCHEMA_LEVEL + 1;
const expansion: Migration = {
  ...{ id: next, name: 'second text', change: 'expand' },
  sql: 'alter table notes add column second text',
};
const contract: Migration = {
  id: next + 1,
  name: 'one text',
  change: 'contract',
  sql: 'alter table notes drop column text',
};
const today = migrations;
const tomorrow = [...migrations, expansion, contract];

async function makeDatabase(): Promise<{ url: string; database: Database }> {
  const { url, drop } = await freshDatabase(serverUrl ?? '');
  const database = connectPostgres(url);
  closing.push(drop, () => database.close());
  await database.write({ text: 'create table notes (text text)' });
  return { url, database };
}

/** A live node of a build that knows these migrations. */
async function nodeOf(url: string, known: readonly Migration[]): Promise<AdvisoryLock> {
  const levels = { schema: known.at(-1)?.id ?? 0, data: 1 };
  const lock = new Lock(url, {
    ...longLivedLockParts,
    ...{ node: { address: 'test:1', build: 'test', levels }, ownership: sharedOwnership },
  });
  closing.push(() => lock.release());
  await lock.acquire(never);
  return lock;
}

const start = (database: Database, known: readonly Migration[], more: MigrateOptions = { shared: true }) =>
  migrate(database, { known, ...more });

async function columnsOf(database: Database, table: string): Promise<string[]> {
  const rows = await database.read<{ name: string }>({
    text: `select column_name as name from information_schema.columns where table_name = '${table}' order by 1`,
  });
  return rows.map(({ name }) => name);
}
const columns = (database: Database): Promise<string[]> => columnsOf(database, 'notes');

describe.runIf(serverUrl)('a contract', () => {
  it('waits for the nodes of older builds, while expansions are applied', async () => {
    const { url, database } = await makeDatabase();
    const old = await nodeOf(url, today);
    await nodeOf(url, tomorrow);
    const { applied, waiting } = await start(database, tomorrow);
    expect([applied, waiting]).toEqual([1, [contract]]);
    expect(await columns(database)).toEqual(['second', 'text']);
    const contracts = new WaitingContracts(database, waiting);
    expect(await contracts.apply()).toEqual([]);
    await old.release();
    const elsewhere = new WaitingContracts(database, waiting);
    expect(await contracts.apply()).toEqual([contract.id]);
    expect(await columns(database)).toEqual(['second']);
    expect(elsewhere.ids).toEqual([contract.id]);
    await elsewhere.refresh();
    expect(elsewhere.ids).toEqual([]);
  });

  it('waits for a node whose process has ended until it is fenced', async () => {
    const { url, database } = await makeDatabase();
    const old = await nodeOf(url, today);
    await database.write({ text: `select pg_terminate_backend(${old.fence().lockPid}, 5000)` });
    expect(await start(database, tomorrow)).toMatchObject({ waiting: [contract] });
    await database.write({ text: `update nodes set epoch = 2 where id = '${old.node}'` });
    expect(await start(database, tomorrow)).toMatchObject({ applied: 1, waiting: [] });
  });

  it('is applied at once where no node is older', async () => {
    const { url, database } = await makeDatabase();
    await nodeOf(url, tomorrow);
    expect(await start(database, tomorrow)).toEqual({ applied: 2, waiting: [] });
  });

  it('takes nodes of builds that register no level for those of level 22', async () => {
    const { url, database } = await makeDatabase();
    const old = await nodeOf(url, tomorrow);
    await database.write({ text: `update nodes set schema_level = default where id = '${old.node}'` });
    expect(await database.read({ text: 'select schema_level from nodes' })).toEqual([{ schema_level: 22 }]);
    expect(await start(database, tomorrow)).toMatchObject({ waiting: [contract] });
  });

  it('gives up when a table is in use, so that other statements do not wait for long', slow, async () => {
    const { url, database } = await makeDatabase();
    const old = await nodeOf(url, today);
    const { waiting } = await start(database, tomorrow);
    await old.release();
    const contracts = new WaitingContracts(database, waiting);
    const another = connectPostgres(url);
    closing.push(() => another.close());
    await another.transaction(async (query) => {
      await query('select from notes');
      await expect(contracts.apply()).rejects.toThrow(/lock timeout/);
    });
    expect(await contracts.apply()).toEqual([contract.id]);
  });
});

describe.runIf(serverUrl)('a migration of a table that a long transaction of another program reads', () => {
  const alterNodes: Migration = {
    id: next,
    name: 'note',
    change: 'expand',
    sql: 'alter table nodes add column note text',
  };
  const known = [...migrations, alterNodes];

  /** A transaction that reads the nodes until the result is called. */
  async function readNodes(url: string): Promise<() => Promise<void>> {
    const reader = new pg.Client({ connectionString: url });
    await reader.connect();
    closing.push(() => reader.end());
    await reader.query('begin; lock table nodes in access share mode');
    return async () => void (await reader.query('commit'));
  }

  it('is repeated until it succeeds, while the other nodes renew their leases', slow, async () => {
    const { url, database } = await makeDatabase();
    const other = await nodeOf(url, today);
    const lost = vi.fn();
    other.onLost(lost);
    let renewals = 0;
    other.onRenewed(() => {
      renewals += 1;
    });
    const endReading = await readNodes(url);
    const { log, lines } = recordingLog();
    const migrated = migrate(database, {
      ...{ known, shared: true, lockTimeoutMs: SCHEMA_LOCK_TIMEOUT_MS },
      retry: { log, signal: never },
    });
    await eventually(() => lines.length >= 2);
    const before = renewals;
    await eventually(() => renewals >= before + 2);
    expect(await columnsOf(database, 'nodes')).not.toContain('note');
    await endReading();
    expect(await migrated).toEqual({ applied: 1, waiting: [] });
    expect(await columnsOf(database, 'nodes')).toContain('note');
    expect(lost).not.toHaveBeenCalled();
    expect(lines[0]).toMatchObject({
      level: 'warn',
      fields: { migration: next, err: { message: expect.stringContaining('lock timeout') } },
      message: 'schema not changed: a table is in use; retrying',
    });
  });

  it('is given up when the start is aborted', slow, async () => {
    const { url, database } = await makeDatabase();
    await readNodes(url);
    const { log, lines } = recordingLog();
    const stop = new AbortController();
    const migrated = migrate(database, {
      ...{ known, shared: true, lockTimeoutMs: SCHEMA_LOCK_TIMEOUT_MS },
      retry: { log, signal: stop.signal },
    });
    const refused = expect(migrated).rejects.toThrow(expect.objectContaining({ name: 'AbortError' }));
    await eventually(() => lines.length >= 1);
    stop.abort();
    await refused;
    expect(await columnsOf(database, 'nodes')).not.toContain('note');
  });
});

describe.runIf(serverUrl)('the migrations of the audit log', () => {
  const before = migrations.filter(({ id }) => id < 27);
  const entry = (id: number): string => `insert into journal (kind, id, version, tenant_id, at, by, event)
    values ('device', gen_random_uuid(), ${id}, gen_random_uuid(), ${id}, '{"kind": "user"}', 'made')`;

  /** A database of that level, of which each test gets a copy. */
  let template: Promise<FreshDatabase> | undefined;
  async function makeTemplate(): Promise<FreshDatabase> {
    const made = await freshDatabase(serverUrl ?? '', true);
    const database = connectPostgres(made.url);
    await migrate(database, { known: before });
    await database.close();
    return made;
  }
  afterAll(async () => (await template)?.drop());

  async function openBefore(): Promise<{ url: string; database: Database; other: Database }> {
    template ??= makeTemplate();
    const { url, drop } = await copyOf(await template);
    const [database, other] = [connectPostgres(url), connectPostgres(url)];
    closing.push(
      drop,
      () => database.close(),
      () => other.close(),
    );
    return { url, database, other };
  }
  const isWaiting = (database: Database) =>
    database
      .read({ text: "select from pg_locks where locktype = 'virtualxid' and not granted" })
      .then(({ length }) => length > 0);

  it('let other nodes read and write while the indexes are made, also during a long transaction', slow, async () => {
    const { url, database, other } = await openBefore();
    await migrate(database, { known: migrations.filter(({ indexes }) => indexes === undefined) });
    const writer = new pg.Client({ connectionString: url });
    await writer.connect();
    closing.push(() => writer.end());
    await writer.query(`begin; ${entry(1)}`);
    const migrated = migrate(database, { lockTimeoutMs: SCHEMA_LOCK_TIMEOUT_MS });
    await eventually(() => isWaiting(other));
    await other.write({ text: entry(2) });
    expect(await other.read({ text: 'select at from journal' })).toEqual([{ at: 2 }]);
    await writer.query('commit');
    expect(await migrated).toMatchObject({ applied: migrations.filter(({ indexes }) => indexes !== undefined).length });
    const valid = await other.read({
      text: `select relname as name, indisvalid as valid from pg_index join pg_class on oid = indexrelid
        where relname in ('audit_in_order', 'journal_in_order') order by 1`,
    });
    expect(valid).toEqual([
      { name: 'audit_in_order', valid: true },
      { name: 'journal_in_order', valid: true },
    ]);
  });

  it('report repeatedly that an index waits for a transaction, and how long the migration took', slow, async () => {
    const { url, database, other } = await openBefore();
    await migrate(database, { known: migrations.filter(({ indexes }) => indexes === undefined) });
    const writer = new pg.Client({ connectionString: url, application_name: 'nightly report' });
    await writer.connect();
    closing.push(() => writer.end());
    await writer.query(`begin; ${entry(1)}`);
    const pid = (await writer.query('select pg_backend_pid() as pid')).rows[0].pid;
    const { log, lines } = recordingLog();
    const progress = { afterMs: 20, repeatMs: 20 };
    const migrated = migrate(database, { retry: { log, signal: never }, progress });
    const of36 = (text: string) => lines.filter(({ fields, message }) => fields.migration === 36 && message === text);
    const waits = () => of36('schema: migration is waiting');
    await eventually(() => waits().length >= 3);
    expect(waits().at(-1)).toMatchObject({
      level: 'warn',
      fields: {
        ...{ migration: 36, name: 'audit order', reason: 'a lock of another session' },
        blocked_by: expect.arrayContaining([{ pid, application: 'nightly report', transaction_s: expect.any(Number) }]),
      },
    });
    expect(lines).toContainEqual({
      level: 'info',
      fields: { migration: 36, name: 'audit order' },
      message: 'schema: migration is running',
    });
    // Another node starts meanwhile.
    const second = recordingLog();
    const also = migrate(other, { retry: { log: second.log, signal: never }, progress });
    await eventually(() =>
      second.lines.find(
        ({ fields }) => fields.reason === 'another process makes the indexes' && fields.migration === 36,
      ),
    );
    await writer.query('commit');
    await Promise.all([migrated, also]);
    expect(of36('schema: long migration has ended')).toMatchObject([
      { level: 'info', fields: { duration_ms: expect.any(Number) } },
    ]);
  });

  it('report that they wait for a process that migrates', async () => {
    const { url, database } = await openBefore();
    const holder = new pg.Client({ connectionString: url });
    await holder.connect();
    closing.push(() => holder.end());
    await holder.query(`select pg_advisory_lock(${MIGRATION_LOCK})`);
    const { log, lines } = recordingLog();
    const migrated = migrate(database, { retry: { log, signal: never }, progress: { afterMs: 20, repeatMs: 20 } });
    await eventually(() => lines.filter(({ message }) => message === 'schema: migration is waiting').length >= 2);
    await holder.query(`select pg_advisory_unlock(${MIGRATION_LOCK})`);
    await migrated;
  });

  it('report nothing while they are quick', async () => {
    const { database } = await openBefore();
    const { log, lines } = recordingLog();
    // Never reached.
    await migrate(database, { retry: { log, signal: never }, progress: { afterMs: 10 ** 8, repeatMs: 10 ** 8 } });
    expect(lines.filter(({ message }) => message !== 'schema: making indexes')).toEqual([]);
  });

  it('count CAs that were deleted before as deleted now', async () => {
    const { database } = await openBefore();
    await migrate(database, { known: migrations.filter(({ id }) => id < 41) });
    const [ca, tenant] = ['00000000-0000-7000-8000-00000000000a', '00000000-0000-7000-8000-00000000000b'];
    await database.write({
      text: `insert into device_certificates (ca_id, serial_number, tenant_id, revoked_at)
        values ('${ca}', '01', '${tenant}', 1), ('${ca}', '02', '${tenant}', 1)`,
    });
    await migrate(database);
    const found = await database.read({
      text: `select id, tenant_id, deleted_at between extract(epoch from now()) * 1000 - 600000 and
        extract(epoch from now()) * 1000 + 1 as now from deleted_cas`,
    });
    expect(found).toEqual([{ id: ca, tenant_id: tenant, now: true }]);
  });

  it('read no table that may be large while they lock it', () => {
    const locking = migrations.filter(({ id, change }) => id >= 27 && change === 'expand').map(({ sql }) => sql);
    for (const text of locking) expect(text).not.toMatch(/create index \S+ on (audit|journal|commands|devices)\b/);
  });

  it('make an index again that an interrupted attempt has left', async () => {
    const { url, database, other } = await openBefore();
    await migrate(database, { known: migrations.filter(({ indexes }) => indexes === undefined) });
    const writer = new pg.Client({ connectionString: url });
    await writer.connect();
    closing.push(() => writer.end());
    await writer.query(`begin; ${entry(1)}`);
    const ended = expect(migrate(database)).rejects.toThrow();
    await eventually(() => isWaiting(other));
    await other.write({
      text: `select pg_terminate_backend(pid, 5000) from pg_stat_activity where query like 'create index concurrently%'
        and datname = current_database() and pid <> pg_backend_pid()`,
    });
    await ended;
    const invalid = 'select from pg_index where not indisvalid';
    expect((await other.read({ text: invalid })).length).toBeGreaterThan(0);
    await writer.query('commit');
    await migrate(database);
    expect(await other.read({ text: invalid })).toEqual([]);
  });

  it('make an index again after a deadlock', slow, async () => {
    const { database, other } = await openBefore();
    const deadlock = Object.assign(new Error('deadlock detected'), { code: '40P01' });
    const session = vi.spyOn(database, 'session').mockRejectedValueOnce(deadlock);
    const warn = vi.fn();
    const log = { debug() {}, info() {}, warn, error() {} };
    const { applied } = await migrate(database, { retry: { log, signal: new AbortController().signal } });
    expect(applied).toBe(migrations.length - before.length);
    expect(session.mock.calls.length).toBeGreaterThan(1);
    expect(warn).toHaveBeenCalledTimes(1);
    expect(await other.read({ text: 'select from pg_index where not indisvalid' })).toEqual([]);
  });

  it('make the indexes once, when several nodes start at the same time', slow, async () => {
    const { url, database, other } = await openBefore();
    const more = connectPostgres(url);
    closing.push(() => more.close());
    const results = await Promise.all([database, other, more].map((one) => migrate(one)));
    expect(results.reduce((sum, { applied }) => sum + applied, 0)).toBe(migrations.length - before.length);
  });
});

describe.runIf(serverUrl)('a build', () => {
  it('shares a database with expansions that it does not know, and refuses it when alone', async () => {
    const { url, database } = await makeDatabase();
    await nodeOf(url, today);
    await start(database, tomorrow);
    expect(await start(database, today)).toEqual({ applied: 0, waiting: [] });
    const refusal = start(database, today, {});
    await expect(refusal).rejects.toBeInstanceOf(SchemaMismatch);
    await expect(refusal).rejects.toThrow(`has migration ${expansion.id}, but this program version only knows`);
  });

  it('does not start on a database whose contract it does not know', async () => {
    const { database } = await makeDatabase();
    await start(database, tomorrow);
    await expect(start(database, today)).rejects.toThrow(
      `The database has migration ${contract.id}, but this program version only knows ${SCHEMA_LEVEL}: start a newer version.`,
    );
    await expect(start(database, [...today, expansion])).rejects.toThrow(SchemaMismatch);
  });

  it('starts after a contract for which it is new enough', async () => {
    const { database } = await makeDatabase();
    const laterContract: Migration = { ...contract, oldestLevel: expansion.id };
    await start(database, [...today, expansion, laterContract]);
    expect(await start(database, [...today, expansion])).toEqual({ applied: 0, waiting: [] });
    await expect(start(database, today)).rejects.toThrow(`has migration ${expansion.id}`);
    // The check of builds before levels: they compare the ids in this table with those that they know.
    expect(await database.read({ text: 'select max(id) as newest from migrations' })).toEqual([
      { newest: expansion.id },
    ]);
  });

  it('applies each migration once, when several start at the same time', async () => {
    const { url, database } = await makeDatabase();
    await nodeOf(url, tomorrow);
    const results = await Promise.all(Array.from({ length: 4 }, () => start(database, tomorrow)));
    expect(results.reduce((sum, { applied }) => sum + applied, 0)).toBe(2);
  });
});
