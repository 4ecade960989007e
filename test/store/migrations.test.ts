import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, inject, it } from 'vitest';
import { connectPglite, connectPostgres } from '../../src/store/postgres/connect.ts';
import type { Database } from '../../src/store/postgres/database.ts';
import { type Migration, migrate, migrations, SchemaMismatch } from '../../src/store/postgres/migrations.ts';
import { freshDatabase } from '../support/store.ts';

const serverUrl = inject('postgresUrl');
const folders: string[] = [];
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

async function emptyPglite(): Promise<Database[]> {
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-migrations-'));
  folders.push(folder);
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
  { name: 'PGlite', open: emptyPglite },
  ...(serverUrl === null ? [] : [{ name: 'PostgreSQL', open: emptyPostgres }]),
];

const note: Migration = { id: migrations.length + 1, name: 'note', sql: 'create table notes (text text not null)' };
const tables = async (database: Database): Promise<string[]> =>
  (await database.read<{ name: string }>({ text: 'select relname as name from pg_class where relkind = $$r$$' })).map(
    (row) => row.name,
  );

describe.each(backends)('migrations on $name', ({ open }) => {
  it('are applied once, by however many processes start at once', async () => {
    const databases = await open();
    const applied = await Promise.all([...databases, ...databases].map((database) => migrate(database)));
    expect(applied.reduce((sum, count) => sum + count)).toBe(migrations.length);
    const [database] = databases;
    if (!database) throw new Error('no database');
    expect(await migrate(database)).toBe(0);
    expect(await tables(database)).toEqual(expect.arrayContaining(['devices', 'commands', 'tenants', 'journal']));

    expect(await migrate(database, [...migrations, note])).toBe(1);
    await expect(migrate(database)).rejects.toThrow(/start a newer one/);

    const changed = [...migrations, { ...note, sql: `${note.sql};` }];
    const refusal = migrate(database, changed);
    await expect(refusal).rejects.toBeInstanceOf(SchemaMismatch);
    await expect(refusal).rejects.toThrow(/Migration \d+ \(note\).*must never be changed/);

    const broken = {
      id: note.id + 1,
      name: 'broken',
      sql: 'create table half (id integer); select no_such_function()',
    };
    await expect(migrate(database, [...migrations, note, broken])).rejects.toThrow(/no_such_function/);
    expect(await tables(database)).not.toContain('half');
    expect(await migrate(database, [...migrations, note])).toBe(0);
  });

  it('keeps the stored answers of before, with whose secret they show', async () => {
    const [database] = (await open()) as [Database];
    await migrate(database, migrations.slice(0, 3));
    await database.write({
      text: `insert into idempotency
          (digest, principal, method, path, key, body_hash, state, status, answer, device_id, expires_at)
        values ('d', 'p', 'POST', '/x', 'k', 'h', 'done', 201, 'sealed', '0195d9a2-7f00-7000-8000-000000000001', 5)`,
    });
    await migrate(database);
    expect(await database.read({ text: 'select digest, subject, answer from idempotency' })).toEqual([
      { digest: 'd', subject: '0195d9a2-7f00-7000-8000-000000000001', answer: 'sealed' },
    ]);
  });
});
