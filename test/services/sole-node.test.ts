import { expect, it } from 'vitest';
import { DATA_LEVEL } from '../../src/domain/data-level.ts';
import { SHARD_COUNT } from '../../src/domain/shards.ts';
import { SoleNode } from '../../src/services/sole-node.ts';

const id = '0195d9a2-7f00-7000-8000-000000000001';
const load = {
  ...{ liveActors: 1, deviceSessions: 2, cpuShare: 0, heapBytes: 3, rssBytes: 4, eventLoopDelayMs: 0 },
};
const masterKeys = { current: 'fV3hGm0nB1s', next: null, previous: null };
const node = new SoleNode({
  ...{
    id,
    address: 'host:8080',
    build: '1.0.0',
    schemaLevel: 23,
    startedAt: 5,
    masterKeys,
    load: () => load,
    leaseAgeMs: () => 90,
  },
});

it('a process that has the database to itself is one node with all shards', async () => {
  const { nodes, owners } = await node.report();
  expect(nodes).toEqual([
    {
      ...{
        id,
        number: 1,
        address: 'host:8080',
        link: null,
        build: '1.0.0',
        state: 'active',
        startedAt: 5,
        alive: true,
        schemaLevel: 23,
        dataLevel: DATA_LEVEL,
      },
      ...{ figures: { load, masterKeys, opened: SHARD_COUNT, handedOver: 0 }, leaseAgeMs: 90 },
    },
  ]);
  expect(owners).toEqual(Array.from({ length: SHARD_COUNT }, () => id));
});

it('it cannot be drained', async () => {
  expect(await node.drain(id)).toBe('last active');
  expect(await node.resume(id)).toBe('done');
  const other = id.replace(/1$/, '2');
  expect(await node.drain(other)).toBe('not found');
  expect(await node.resume(other)).toBe('not found');
});
