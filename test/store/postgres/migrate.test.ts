import { afterEach, describe, expect, inject, it } from 'vitest';
import { type AdvisoryLock, AdvisoryLock as Lock } from '../../../src/store/lock/advisory-lock.ts';
import { sharedOwnership } from '../../../src/store/lock/shared-ownership.ts';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { type MigrateOptions, migrate, SchemaMismatch } from '../../../src/store/postgres/migrate.ts';
import { type Migration, migrations, SCHEMA_LEVEL } from '../../../src/store/postgres/migrations.ts';
import { WaitingContracts } from '../../../src/store/postgres/waiting-contracts.ts';
import { longLivedLockParts } from '../../support/lock-parts.ts';
import { freshDatabase } from '../../support/store.ts';

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

async function columns(database: Database): Promise<string[]> {
  const rows = await database.read<{ name: string }>({
    text: `select column_name as name from information_schema.columns where table_name = 'notes' order by 1`,
  });
  return rows.map(({ name }) => name);
}

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

  it('gives up when a table is in use, so that other statements do not wait for long', async () => {
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

describe('the migrations', () => {
  it('after those before levels require only ids that exist', () => {
    for (const { oldestLevel } of migrations) {
      if (oldestLevel !== undefined) expect(migrations.map(({ id }) => id)).toContain(oldestLevel);
    }
  });

  it('that expand the schema take nothing away from older builds', () => {
    const expansions = migrations.filter(({ change }) => change === 'expand');
    expect(expansions.length).toBeGreaterThan(0);
    for (const { name, sql } of expansions) {
      const message =
        `migration '${name}' looks like a contract: older builds use what it removes, renames or restricts. ` +
        'Divide it into an expansion now and a contract in a later release (CONTRIBUTING.md).';
      const plain = sql.replace(/^drop trigger if exists .*$/gm, '').replace(/\$\$[^$]*\$\$/g, '');
      expect(plain, message).not.toMatch(
        /\bdrop\b|\brename\b|set not null|alter column \w+ (set data )?type|\btruncate\b/i,
      );
      for (const [column] of plain.matchAll(/add column[^;,]*/gi)) {
        if (/not null/i.test(column)) expect(column, message).toMatch(/default/i);
      }
    }
  });
});
