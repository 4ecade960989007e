import { expect, it } from 'vitest';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import type { Fence } from '../../../src/store/postgres/fence.ts';
import { historyStore } from '../../../src/store/postgres/history.ts';
import { newId } from '../../support/actor-commits.ts';
import { ReportingDevice } from '../../support/history-model.ts';
import { eachDatabase } from '../../support/store.ts';

const AT = Date.UTC(2026, 2, 1);

eachDatabase('history of a shard with another owner', (backend) => {
  /** The store of a node that owns no shard, and the reasons for which it was refused. */
  async function foreignNode(allShardsEpoch: number | null) {
    const device = new ReportingDevice(backend().store);
    await device.register();
    await device.report(AT, { values: { level: 1 } });
    const refused: string[] = [];
    const fence: Fence = {
      ...{ node: newId(), nodeEpoch: 1, allShardsEpoch, lockPid: 0 },
      refused: (reason) => refused.push(reason),
    };
    const { id: deviceId, tenantId } = device;
    const { database } = backend();
    // Without names: the connections have prepared the statements of a process without a fence.
    const history = historyStore(
      {
        read: ({ name: _, ...statement }) => database.read(statement),
        write: ({ name: _, ...statement }) => database.write(statement),
        transaction: (run) => database.transaction(run),
      },
      fence,
    );
    const { version, rows } = await history.tail(deviceId, 10, 10_000);
    const compaction = { deviceId, tenantId, from: version, to: rows.at(-1)?.version ?? 0, segments: [] };
    return { history, compaction, refused };
  }
  const positionOf = async (deviceId: string) => (await backend().store.history.tail(deviceId, 1, 1)).version;

  it('is unchanged, and the node continues, if shards move between nodes', async () => {
    const { history, compaction, refused } = await foreignNode(null);
    const { deviceId, tenantId } = compaction;
    expect(await history.compact(compaction)).toBe(false);
    const body = new Uint8Array([1]);
    const rollups = { '1m': body, '15m': body, '1h': body, '1d': body };
    const merged = { property: 'level', day: 1, part: 1, samples: 1, body, rollups };
    expect(await history.merge(deviceId, tenantId, [merged])).toBe(false);
    await history.closeDays(deviceId, tenantId, 0, 1);
    await history.deleteDevice(deviceId, tenantId, 10, () => false);
    expect(refused).toEqual([]);
    expect(await positionOf(deviceId)).toBe(0);
    expect(await history.segments(tenantId, deviceId, 1, ['level'])).toEqual([]);
    expect((await history.tail(deviceId, 10, 10_000)).rows).toHaveLength(1);
  });

  it('is unchanged, and the node is reported as refused, if one node owns all shards', async () => {
    const { history, compaction, refused } = await foreignNode(7);
    await expect(history.compact(compaction)).rejects.toThrow(StoreUnavailable);
    expect(refused).toHaveLength(1);
    expect(await positionOf(compaction.deviceId)).toBe(0);
  });
});
