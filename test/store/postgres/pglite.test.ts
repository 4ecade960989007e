import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { packDatabase } from '../../../scripts/build-database.ts';
import { CommitUnknown, type Store } from '../../../src/store/contract.ts';
import { connectPglite, connectThread } from '../../../src/store/postgres/connect.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { migrations } from '../../../src/store/postgres/migrations.ts';
import { PgliteThread } from '../../../src/store/postgres/pglite/thread.ts';
import { createStore } from '../../../src/store/postgres/store.ts';
import { deviceCommit, nextCommit } from '../../support/actor-commits.ts';
import { eventLoopTurns } from '../../support/clock.ts';
import { copyPglite } from '../../support/pglite.ts';

/** Offset of the type of the first entry. */
const TAR_TYPE = 156;

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'twinkeep-thread-'));
  closing.push(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

const shared = mkdtempSync(join(tmpdir(), 'twinkeep-thread-'));
afterAll(() => rmSync(shared, { recursive: true, force: true }));

let packed: Promise<string> | undefined;
async function packTemplate(): Promise<string> {
  const file = join(shared, 'template.tar.gz');
  // The best compression takes seconds.
  await packDatabase(inject('pgliteTemplate'), file, 1);
  return file;
}
const packedTemplate = (): Promise<string> => {
  packed ??= packTemplate();
  return packed;
};

describe('the thread of the embedded database', () => {
  let thread: PgliteThread;
  let database: Database;
  let store: Store;
  beforeAll(() => {
    thread = new PgliteThread(copyPglite(inject('pgliteTemplate'), shared));
    database = connectThread(thread);
    store = createStore(database);
  });
  afterAll(() => database.close());

  it('is replaced when it dies, and nothing acknowledged is lost', async () => {
    const commit = deviceCommit();
    await store.actors.commit([commit]);
    await thread.kill();
    expect(await store.actors.load('device', [commit.ref.id])).toHaveLength(1);
    expect(await store.actors.commit([nextCommit(commit)])).toEqual({ lost: [] });
  });

  it('that dies during a statement leaves the outcome of a write unknown', async () => {
    await store.ping(20_000);
    const outcome = database
      .write({ text: 'select count(*) from generate_series(1, 100000000)' })
      .catch((error) => error);
    // The statement occupies the only connection before the thread is killed.
    await eventLoopTurns();
    await thread.kill();
    expect(await outcome).toBeInstanceOf(CommitUnknown);
    await store.ping(20_000);
  });

  it('does not block the event loop during a long statement', async () => {
    await database.read({ text: 'select 1 as one' });
    let ticks = 0;
    const ticking = setInterval(() => {
      ticks += 1;
    }, 1);
    await database.read({ text: 'select count(*) as n from generate_series(1, 1000000)' });
    clearInterval(ticking);
    // Hundreds; one or two if the statement ran in this thread.
    expect(ticks).toBeGreaterThan(10);
  });

  it('keeps no memory of its results', async () => {
    const request = () => database.read({ text: "select repeat('x', 700000) as long" });
    await request();
    const before = await thread.heapBytes();
    for (let n = 0; n < 60; n += 1) await request();
    // The response was 42 MB.
    expect((await thread.heapBytes()) - before).toBeLessThan(20_000_000);
  });

  it('starts no statement of a later connection in a transaction that an earlier one left open', async () => {
    const left = database.transaction(async (query) => {
      await query('create table half (id integer)');
      throw new Error('changed my mind');
    });
    await expect(left).rejects.toThrow('changed my mind');
    await expect(database.read({ text: 'select * from half' })).rejects.toThrow(/does not exist/);
  });
});

it('a first start begins again after an earlier one was interrupted', async () => {
  const dataDir = join(folder(), 'db');
  cpSync(inject('pgliteTemplate'), `${dataDir}.making`, { recursive: true });
  rmSync(join(`${dataDir}.making`, 'global'), { recursive: true });
  const database = await connectPglite(dataDir, { template: await packedTemplate() });
  closing.push(() => database.close());
  expect(await database.read({ text: 'select 1 as one' })).toEqual([{ one: 1 }]);
  expect(existsSync(`${dataDir}.making`)).toBe(false);
});

it('a folder without a database is refused with a reason', async () => {
  const dataDir = folder();
  writeFileSync(join(dataDir, 'PG_VERSION'), 'nonsense');
  await expect(connectPglite(dataDir)).rejects.toThrow();
});

describe('a new database', () => {
  it('is created without maps of its files, which PostgreSQL makes when it needs them', async () => {
    const isMap = (name: string): boolean => /_(fsm|vm)$/.test(name);
    const dataDir = copyPglite(inject('pgliteTemplate'), folder());
    const files = (): string[] => readdirSync(dataDir, { recursive: true, encoding: 'utf8' });
    expect(files().filter(isMap)).toEqual([]);
    const database = await connectPglite(dataDir);
    closing.push(() => database.close());
    await database.write({ text: 'create table numbers as select n from generate_series(1, 20000) as n' });
    await database.write({ text: 'vacuum numbers' });
    expect(files().filter(isMap).length).toBeGreaterThan(0);
    expect(await database.read({ text: 'select count(*) as n from numbers' })).toEqual([{ n: 20_000 }]);
  });

  it('has the files of the template, with all migrations and no data', async () => {
    const database = await connectPglite(join(folder(), 'db'), { template: await packedTemplate() });
    closing.push(() => database.close());
    const ids = await database.read<{ id: number }>({
      text: 'select id from migrations union select id from expansions order by id',
    });
    expect(ids.map(({ id }) => id)).toEqual(migrations.map(({ id }) => id));
    expect(await database.read({ text: 'select id from tenants' })).toEqual([]);
  });

  it('is not created from an archive that is damaged, and is created by the next start', async () => {
    const template = await packedTemplate();
    const whole = readFileSync(template);
    const archive = gunzipSync(whole);
    const third = Math.floor(archive.length / 3);
    const otherType = Buffer.from(archive).fill('x', TAR_TYPE, TAR_TYPE + 1);
    const changed = Buffer.from(whole).fill(0, whole.length >> 1, (whole.length >> 1) + 64);
    const damaged = [archive.subarray(0, third), archive.subarray(0, third - (third % 512)), otherType].map((tar) =>
      gzipSync(tar, { level: 1 }),
    );
    const dataDir = join(folder(), 'db');
    for (const [n, bytes] of [...damaged, whole.subarray(0, whole.length >> 1), changed].entries()) {
      const file = `${template}.${n}`;
      writeFileSync(file, bytes);
      await expect(connectPglite(dataDir, { template: file })).rejects.toThrow();
      expect(existsSync(dataDir)).toBe(false);
    }
    const database = await connectPglite(dataDir, { template });
    closing.push(() => database.close());
    expect(await database.read({ text: 'select id from tenants' })).toEqual([]);
    expect(existsSync(`${dataDir}.making`)).toBe(false);
  });
});
