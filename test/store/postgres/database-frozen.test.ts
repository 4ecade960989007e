import pg from 'pg';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { PooledDatabase } from '../../../src/store/postgres/database.ts';
import { ServerSessions } from '../../../src/store/postgres/server-sessions.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

const url = inject('postgresUrl');
const QUERY_TIMEOUT_MS = 500;
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A database whose one idle connection is forgotten by the network. */
async function frozenDatabase(): Promise<PooledDatabase> {
  const proxy = await startTcpProxy(url ?? '');
  closing.push(() => proxy.close());
  const sessions = new ServerSessions();
  const connectionString = proxy.proxiedUrl(url ?? '');
  const pool = new pg.Pool({ connectionString, query_timeout: QUERY_TIMEOUT_MS, onConnect: sessions.onConnect });
  const database = new PooledDatabase(pool, { sessions });
  closing.push(() => database.close());
  await database.read({ text: 'select 1' });
  expect(proxy.freeze()).toBe(1);
  return database;
}

describe.runIf(url)('a connection of the pool that no longer answers', () => {
  it('does not keep a transaction, which has no time limit itself; the next one has another connection', async () => {
    const database = await frozenDatabase();
    const count = () => database.transaction((query) => query<{ n: number }>('select 1 as n'));
    await expect(count()).rejects.toThrow(StoreUnavailable);
    expect(await count()).toEqual([{ n: 1 }]);
  });

  it('does not keep a session without time limits', async () => {
    const database = await frozenDatabase();
    const count = () => database.session((query) => query<{ n: number }>('select 1 as n'));
    await expect(count()).rejects.toThrow(StoreUnavailable);
    expect(await count()).toEqual([{ n: 1 }]);
  });
});
