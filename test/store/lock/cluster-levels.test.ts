import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { AdvisoryLock } from '../../../src/store/lock/advisory-lock.ts';
import type { BuildLevels } from '../../../src/store/lock/node-registration.ts';
import { sharedOwnership } from '../../../src/store/lock/shared-ownership.ts';
import { eventually } from '../../support/clock.ts';
import { longLivedLockParts, recordingLog } from '../../support/lock-parts.ts';
import { slow } from '../../support/slow.ts';
import { sql } from '../../support/write-oracle.ts';
import { closing, database, endLockSession, lockOf, never, nodeOf, serverUrl, withNodes } from './cluster-nodes.ts';

withNodes();

describe.runIf(serverUrl)('nodes of builds with different levels', () => {
  const older = { schema: 23, data: 1 };
  const newer = { schema: 24, data: 2 };

  it('are listed with their levels', async () => {
    const url = await database();
    const [first] = [await nodeOf(url, older), await nodeOf(url, newer)];
    const { nodes, levels } = await first.cluster.view();
    expect(nodes.map(({ schemaLevel, dataLevel }) => [schemaLevel, dataLevel])).toEqual([
      [23, 1],
      [24, 2],
    ]);
    expect(new Set(levels)).toEqual(new Set([0]));
  });

  it('raise the level of the shards that they own; an older one gets none of them', async () => {
    const url = await database();
    const old = await nodeOf(url, older);
    const first = await nodeOf(url, newer);
    await old.cluster.claim([1, 2, 3]);
    await old.cluster.handOver([2], first.cluster.self);
    await first.cluster.claim([4]);
    expect((await old.cluster.view()).levels.slice(0, 6)).toEqual([0, 1, 2, 1, 2, 0]);
    await first.cluster.handOver([2, 4], old.cluster.self);
    await first.cluster.claim([1]);
    expect((await old.cluster.view()).owners.slice(1, 5)).toEqual([
      ...[old.cluster.self, first.cluster.self, old.cluster.self, first.cluster.self],
    ]);
  });

  it('do not claim the shards of a newer one that has ended; another newer one does', async () => {
    const url = await database();
    const old = await nodeOf(url, older);
    const first = await nodeOf(url, newer);
    await old.cluster.claim([1]);
    await first.cluster.claim([2]);
    await endLockSession(url, first);
    await old.cluster.fence([first.cluster.self]);
    await old.cluster.claim([2]);
    expect((await old.cluster.view()).owners[2]).toBe(first.cluster.self);
    // A shard that is claimed together with it is not lost by that.
    await old.cluster.claim([2, 3]);
    expect((await old.cluster.view()).owners.slice(2, 4)).toEqual([first.cluster.self, old.cluster.self]);
    const second = await nodeOf(url, newer);
    await second.cluster.claim([2]);
    expect((await old.cluster.view()).owners[2]).toBe(second.cluster.self);
  });

  it('are refused alone if they cannot read all shards', async () => {
    const url = await database();
    const first = await nodeOf(url, newer);
    await first.cluster.claim([2]);
    await first.lock.release();
    const alone = lockOf(url, undefined, older).acquire(never);
    await expect(alone).rejects.toThrow(
      'has data of level 2, but this program version only reads 1: start a newer version',
    );
    const newest = lockOf(url, undefined, newer);
    await newest.acquire(never);
    expect(await sql(url, 'select distinct owner, data_level from shards')).toEqual([
      { owner: newest.node, data_level: 2 },
    ]);
  });

  it('log that the level rises when they start, as older nodes cannot take the shards back', async () => {
    const url = await database();
    const { log, lines } = recordingLog();
    const start = async (levels: BuildLevels): Promise<AdvisoryLock> => {
      const node = { ...longLivedLockParts.node, levels };
      const lock = new AdvisoryLock(url, { ...longLivedLockParts, log, node, ownership: sharedOwnership });
      closing.push(() => lock.release());
      await lock.acquire(never);
      return lock;
    };
    const warnings = () => lines.filter(({ level }) => level === 'warn');
    await start(newer);
    const old = await nodeOf(url, older);
    await old.cluster.claim([1]);
    await start(older);
    expect(warnings()).toEqual([]);
    const first = await start(newer);
    expect(warnings()).toEqual([
      {
        level: 'warn',
        fields: { data_level: 2, shards_data_level: 1 },
        message: 'data level raised: old nodes cannot take back the shards that this node gets',
      },
    ]);
    await old.cluster.handOver([1], first.node);
    await start(newer);
    expect(warnings()).toHaveLength(1);
  });

  it('keep a level that is given for a new shard', async () => {
    const url = await database();
    const node = await nodeOf(url, older);
    await sql(url, `insert into shards (shard, owner, epoch, data_level) values (7, '${node.cluster.self}', 1, 3)`);
    expect(await sql(url, 'select data_level from shards where shard = 7')).toEqual([{ data_level: 3 }]);
  });

  it(
    'add the levels after a transaction that reads the nodes; the other nodes renew their leases until then',
    slow,
    async () => {
      const url = await database();
      const first = await nodeOf(url);
      await sql(url, 'drop trigger keep_data_level on shards');
      let renewals = 0;
      first.lock.onRenewed(() => {
        renewals += 1;
      });
      const reader = new pg.Client({ connectionString: url });
      await reader.connect();
      closing.push(() => reader.end());
      await reader.query('begin; lock table nodes in access share mode');
      const { log, lines } = recordingLog();
      const second = new AdvisoryLock(url, { ...longLivedLockParts, log, ownership: sharedOwnership });
      closing.push(() => second.release());
      const acquired = second.acquire(never);
      await eventually(() => lines.length >= 2);
      const before = renewals;
      await eventually(() => renewals >= before + 2);
      expect(lines.map(({ message }) => message)).toContain('schema not changed: a table is in use; retrying');
      await reader.query('commit');
      await acquired;
      expect(first.lost).not.toHaveBeenCalled();
      expect(await sql(url, `select tgname from pg_trigger where tgname = 'keep_data_level'`)).toHaveLength(1);
    },
  );
});
