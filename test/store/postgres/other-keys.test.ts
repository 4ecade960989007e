import { afterEach, describe, expect, inject, it } from 'vitest';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import { readValuesWithOtherKeys } from '../../../src/store/postgres/other-keys.ts';
import { createStore } from '../../../src/store/postgres/store.ts';
import { idempotencyRow } from '../../support/actor-commits.ts';
import { freshDatabase } from '../../support/store.ts';
import { sql } from '../../support/write-oracle.ts';

const serverUrl = inject('postgresUrl');
const [LOST, KNOWN] = ['lostkeylost', 'knownkeykno'];
const never = new AbortController().signal;
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function database(empty = false): Promise<string> {
  const { url, drop } = await freshDatabase(serverUrl ?? '', empty);
  closing.push(drop);
  return url;
}

describe.runIf(serverUrl)('the master keys of stored values, read without the lock', () => {
  it('are none in a database without tables, which gets none', async () => {
    const url = await database(true);
    expect(await readValuesWithOtherKeys(url, [KNOWN], { now: 0, signal: never })).toEqual([]);
    expect(await sql(url, `select 1 from pg_class where relnamespace = 'public'::regnamespace`)).toEqual([]);
  });

  it('are counted without those that are known, and without answers that have expired by the given or the database clock', async () => {
    const url = await database();
    const store = createStore(connectPostgres(url));
    closing.push(() => store.close());
    for (const [answer, expiresAt] of [
      [`s2.${LOST}.body`, 1_000],
      [`s2.${LOST}.body`, Date.now() + 3_600_000],
      [`s2.${KNOWN}.body`, Date.now() + 3_600_000],
    ] as const) {
      await store.idempotency.put({ ...idempotencyRow(), answer, expiresAt });
    }
    const read = (now: number | null) => readValuesWithOtherKeys(url, [KNOWN], { now, signal: never });
    expect(await read(500)).toEqual([{ kind: 'stored_answers', keyId: LOST, rows: 2 }]);
    expect(await read(null)).toEqual([{ kind: 'stored_answers', keyId: LOST, rows: 1 }]);
  });

  it('cannot be read when the server does not answer, and reading ends when it is aborted', async () => {
    const away = 'postgres://postgres@127.0.0.1:1/none';
    await expect(readValuesWithOtherKeys(away, [], { now: 0, signal: never })).rejects.toThrow();
    const url = await database();
    const stop = new AbortController();
    const reading = readValuesWithOtherKeys(url, [], { now: 0, signal: stop.signal });
    stop.abort();
    await expect(reading).rejects.toThrow();
  });
});
