import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, inject, it } from 'vitest';
import { openedWith } from '../../src/main/opened-with.ts';
import { openStoreAndDatabase } from '../../src/store/open.ts';
import { copyPglite } from '../support/pglite.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-opened-'));
copyPglite(inject('pgliteTemplate'), dataDir);
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

const open = () => openStoreAndDatabase({ databaseUrl: null, dataDir });

describe('a store that is opened while other work runs', () => {
  it.each(['before', 'after'] as const)('is closed if the work fails %s it is open', async (when) => {
    const opening = open();
    const work = (async () => {
      if (when === 'after') await opening;
      throw new Error('a machine does not compile');
    })();
    await expect(openedWith(opening, work)).rejects.toThrow('a machine does not compile');
    const { database } = await opening;
    await expect(database.read({ text: 'select 1', values: [] })).rejects.toThrow();
  });

  it('that does not close either fails with the error of the work', async () => {
    let closed = 0;
    const close = async () => {
      closed++;
      throw new Error('no connection');
    };
    const failing = Promise.reject(new Error('a machine does not compile'));
    const opened = openedWith(Promise.resolve({ store: { close } }), failing);
    await expect(opened).rejects.toThrow('a machine does not compile');
    expect(closed).toBe(1);
  });

  it('is open when both have succeeded, also after an earlier failure', async () => {
    const { store, database } = await openedWith(open(), Promise.resolve());
    expect(await database.read({ text: 'select 1 as n', values: [] })).toEqual([{ n: 1 }]);
    await store.close();
  });

  it('that does not open fails with its own error', async () => {
    const failing = Promise.reject(new Error('no such database'));
    await expect(openedWith(failing, Promise.reject(new Error('later')))).rejects.toThrow('no such database');
  });
});
