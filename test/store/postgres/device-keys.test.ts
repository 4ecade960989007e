import { describe, expect, it } from 'vitest';
import { DataRefused } from '../../../src/store/contract.ts';
import { deviceCommit, newId, nextCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';
import { commitCalls, keyPut } from './commit-calls.ts';

eachStore('a commit', (backend) => {
  const { devices, commitAll, load } = commitCalls(backend);

  describe('of device keys', () => {
    it('rotates: the old key is in its grace period, and retired afterwards', async () => {
      const id = newId();
      const first = deviceCommit({ id, rows: [keyPut(id, 1)] });
      await commitAll(first);
      const second = nextCommit(first, {
        rows: [keyPut(id, 2), { type: 'key.grace', deviceId: id, keyVersion: 1, graceUntil: 500 }],
      });
      await commitAll(second);
      const live = (await devices().validKeys([id, newId()])).get(id);
      expect(live?.map(({ keyVersion, status, graceUntil }) => [keyVersion, status, graceUntil])).toEqual([
        [2, 'active', null],
        [1, 'grace', 500],
      ]);
      expect(live?.[0]).toMatchObject({ sealedSecret: 'sealed 2', signingAlg: 'hmac-sha256', publicKey: null });
      await commitAll(
        nextCommit(second, { rows: [{ type: 'keys.end', deviceId: id, status: 'retired', except: [2], at: 501 }] }),
      );
      expect(
        (await devices().keyHistory(id)).map(({ keyVersion, status, endedAt }) => [keyVersion, status, endedAt]),
      ).toEqual([
        [2, 'active', null],
        [1, 'retired', 501],
      ]);
    });

    it('applies several changes in order', async () => {
      const id = newId();
      const first = deviceCommit({ id, rows: [keyPut(id, 1)] });
      await commitAll(first);
      await commitAll(
        nextCommit(first, {
          rows: [
            keyPut(id, 2),
            { type: 'key.grace', deviceId: id, keyVersion: 1, graceUntil: 500 },
            { type: 'keys.end', deviceId: id, status: 'retired', except: [2, 3], at: 10 },
            keyPut(id, 3),
            { type: 'key.grace', deviceId: id, keyVersion: 2, graceUntil: 600 },
            { type: 'keys.end', deviceId: id, status: 'revoked', except: [], at: 20 },
            keyPut(id, 4),
          ],
        }),
      );
      const keys = await devices().keyHistory(id);
      expect(
        keys.map(({ keyVersion, status, graceUntil, endedAt }) => [keyVersion, status, graceUntil, endedAt]),
      ).toEqual([
        [4, 'active', null, null],
        [3, 'revoked', null, 20],
        [2, 'revoked', 600, 20],
        [1, 'retired', 500, 10],
      ]);
      expect((await devices().validKeys([id])).get(id)?.map((key) => key.keyVersion)).toEqual([4]);
    });

    it('never replaces an existing key version', async () => {
      const id = newId();
      const first = deviceCommit({ id, rows: [keyPut(id, 1)] });
      await commitAll(first);
      await expect(commitAll(nextCommit(first, { rows: [keyPut(id, 1)] }))).rejects.toBeInstanceOf(DataRefused);
      expect((await load(id))?.version).toBe(1);
    });
  });
});
