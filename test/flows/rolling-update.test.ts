import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { DATA_LEVEL } from '../../src/domain/data-level.ts';
import { SCHEMA_LEVEL } from '../../src/store/postgres/migrations.ts';
import { currentBuild, previousBuild } from '../support/builds.ts';
import { type GroupNode, NodeGroup } from '../support/node-group.ts';

const first = (group: NodeGroup): GroupNode => group.nodes[0] as GroupNode;

/** The builds of the live nodes, by the levels that they registered. */
const levelsOf = (group: NodeGroup) =>
  group.sql<{ schema: number; data: number }>(
    'select schema_level as schema, data_level as data from nodes where epoch = 1 order by number',
  );

describe.runIf(inject('postgresUrl'))('a rolling update from the previous build', () => {
  const previous = previousBuild();
  let group: NodeGroup;

  beforeAll(async () => {
    group = await NodeGroup.open();
  });
  afterAll(() => group.close());

  it('starts with nodes of that build', async () => {
    await Promise.all([group.start(previous), group.start(previous)]);
  });

  it('has nodes that share the load', async () => {
    await group.settled();
    await group.addTenants(3);
    await group.progress();
  });

  it('runs both builds side by side once a node was replaced', async () => {
    await group.replace(first(group), currentBuild);
    await group.progress();
    expect(await levelsOf(group)).toEqual([
      { schema: 22, data: 1 },
      { schema: SCHEMA_LEVEL, data: DATA_LEVEL },
    ]);
  });

  it('returns the shards of a new node that is killed to the old ones', async () => {
    const [old, killed] = group.nodes as [GroupNode, GroupNode];
    await group.stop(killed, 'SIGKILL');
    await group.settled();
    for (const { owner } of group.tenants) expect(await group.nodeOf(owner.tenantId)).toBe(old);
    await group.progress();
    await group.start(currentBuild, killed.ports);
    await group.settled();
  });

  it('ends with new nodes alone', async () => {
    await group.replace(first(group), currentBuild);
    await group.progress();
    expect(new Set((await levelsOf(group)).map(({ schema }) => schema))).toEqual(new Set([SCHEMA_LEVEL]));
  });

  it('can be taken back, as long as no contract was applied', async () => {
    await group.replace(first(group), previous);
    await group.progress();
    expect((await levelsOf(group)).map(({ schema }) => schema)).toContain(22);
  });

  it('has lost nothing, repeated no command, and let each device reconnect once for each node that it was on', async () => {
    expect(await group.verify()).toEqual([]);
    expect(await group.restlessDevices()).toEqual([]);
  });
});
