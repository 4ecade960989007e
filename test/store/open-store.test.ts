import { afterEach, describe, expect, inject, it } from 'vitest';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { SocketLock } from '../../src/store/lock/socket-lock.ts';
import { openStoreAndDatabase, type RowSecurity, type StoreOwner } from '../../src/store/open.ts';
import { newId } from '../support/actor-commits.ts';
import { recordingLog, silentLog } from '../support/lock-parts.ts';
import { slow } from '../support/slow.ts';
import { freshDatabase, ownedDatabase } from '../support/store.ts';
import { sql } from '../support/write-oracle.ts';

const serverUrl = inject('postgresUrl');
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

describe.runIf(serverUrl)('the check of a store that is opened', () => {
  const owner = (check: NonNullable<StoreOwner['check']>): StoreOwner => ({
    ...{ lock: new SocketLock('/nowhere'), log: silentLog, signal: new AbortController().signal, check },
    rowSecurity: 'on',
  });
  const tables = (url: string) => sql(url, `select 1 from pg_class where relnamespace = 'public'::regnamespace`);

  it('runs before any migration, and prevents all of them if it throws', slow, async () => {
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

describe.runIf(serverUrl)('row-level security of a store that is opened', () => {
  async function open(url: string, rowSecurity: RowSecurity) {
    const { log, lines } = recordingLog();
    const owner = { lock: new SocketLock('/nowhere'), log, signal: new AbortController().signal, rowSecurity };
    const { store } = await openStoreAndDatabase({ databaseUrl: url, dataDir: '/nowhere' }, owner);
    closing.push(() => store.close());
    return { store, lines, warnings: lines.filter(({ level }) => level === 'warn') };
  }

  it('needs no superuser', async () => {
    const { url, drop } = await ownedDatabase(serverUrl ?? '');
    closing.push(drop);
    const { store, warnings } = await open(url, 'required');
    expect(warnings).toEqual([]);
    expect((await store.records.homes(newId(), 10)).items).toEqual([]);
  });

  it('is missing with a warning if the service may not create a role, and fails where it is required', async () => {
    const { url, drop } = await ownedDatabase(serverUrl ?? '', 'nocreaterole');
    closing.push(drop);
    const { store, warnings } = await open(url, 'on');
    expect(warnings).toMatchObject([{ fields: { problem: 'permission denied to create role' } }]);
    expect((await store.records.homes(newId(), 10)).items).toEqual([]);
    await expect(open(url, 'required')).rejects.toThrow('ROW_SECURITY=required is not possible: permission denied');
    expect((await open(url, 'off')).warnings).toEqual([]);
  });

  it(
    'answers like a store that is unavailable while the role or a privilege is missing, and logs it',
    slow,
    async () => {
      const { url, drop, owner, asAdmin } = await ownedDatabase(serverUrl ?? '');
      closing.push(drop);
      const { store, lines } = await open(url, 'required');
      const role = `${new URL(url).pathname.slice(1)}_tenant`;
      const home = { id: newId(), tenantId: newId(), name: 'A', timezone: null, createdAt: 1_000 };
      const refused = async (message: string) => {
        const calls = [store.records.homes(home.tenantId, 10), store.records.insertHome(home, null)];
        for (const { reason } of (await Promise.allSettled(calls)) as PromiseRejectedResult[]) {
          expect(reason).toBeInstanceOf(StoreUnavailable);
          expect(reason.message).toContain(message);
        }
      };
      expect((await store.records.homes(home.tenantId, 10)).items).toEqual([]);
      await asAdmin(`revoke ${role} from ${owner}`);
      await refused(`permission denied to set role "${role}"`);
      await asAdmin(`grant ${role} to ${owner}`);
      await sql(url, `revoke all on homes from ${role}`);
      await refused('permission denied for table homes');
      await sql(url, `grant select, insert on homes to ${role}`);
      expect((await store.records.homes(home.tenantId, 10)).items).toEqual([]);
      await sql(url, `drop owned by ${role}`);
      await asAdmin(`drop role ${role}`);
      await refused(`role "${role}" does not exist`);
      const errors = lines.filter(({ level }) => level === 'error');
      expect(errors).toMatchObject([{ fields: { err: { message: expect.stringContaining('permission denied') } } }]);
    },
  );
});
