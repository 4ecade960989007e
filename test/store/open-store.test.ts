import { afterEach, describe, expect, inject, it } from 'vitest';
import { SocketLock } from '../../src/store/lock/socket-lock.ts';
import { openStoreAndDatabase, type StoreOwner } from '../../src/store/open.ts';
import { silentLog } from '../support/lock-parts.ts';
import { freshDatabase } from '../support/store.ts';
import { sql } from '../support/write-oracle.ts';

const serverUrl = inject('postgresUrl');
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

describe.runIf(serverUrl)('the check of a store that is opened', () => {
  const owner = (check: NonNullable<StoreOwner['check']>): StoreOwner => ({
    ...{ lock: new SocketLock('/nowhere'), log: silentLog, signal: new AbortController().signal, check },
  });
  const tables = (url: string) => sql(url, `select 1 from pg_class where relnamespace = 'public'::regnamespace`);

  it('runs before any migration, and prevents all of them if it throws', async () => {
    const { url, drop } = await freshDatabase(serverUrl ?? '', true);
    closing.push(drop);
    const where = { databaseUrl: url, dataDir: '/nowhere' };
    const refusing = openStoreAndDatabase(
      where,
      owner(async ({ sealedValues }) => {
        expect(await sealedValues.withOtherKeys([], 0)).toEqual([]);
        throw new Error('keys that do not fit');
      }),
    );
    await expect(refusing).rejects.toThrow('keys that do not fit');
    expect(await tables(url)).toEqual([]);
    const { store } = await openStoreAndDatabase(
      where,
      owner(async () => {}),
    );
    await store.close();
    expect(await tables(url)).not.toEqual([]);
  });
});
