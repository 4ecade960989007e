import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { DATA_LEVEL } from '../../src/domain/data-level.ts';
import { SCHEMA_LEVEL } from '../../src/store/postgres/migrations.ts';
import { currentBuild, previousBuild } from '../support/builds.ts';
import { eventually } from '../support/clock.ts';
import { type GroupNode, NodeGroup } from '../support/node-group.ts';

const first = (group: NodeGroup): GroupNode => group.nodes[0] as GroupNode;

/** The builds of the live nodes, by the levels that they registered. */
const levelsOf = (group: NodeGroup) =>
  group.sql<{ schema: number; data: number }>(
    'select schema_level as schema, data_level as data from nodes where epoch = 1 order by number',
  );

/** The forms of the sealed secrets of devices. */
const formsOf = async (group: NodeGroup): Promise<string[]> => {
  const rows = await group.sql<{ form: string }>(
    'select distinct left(sealed_secret, 2) as form from device_keys where sealed_secret is not null order by 1',
  );
  return rows.map(({ form }) => form);
};

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

  it('can be taken back, as long as a node of that build is alive and the contract waits for its end', async () => {
    await group.replace(group.nodes[1] as GroupNode, previous);
    await group.progress();
    expect((await levelsOf(group)).map(({ schema }) => schema)).toEqual([22, 22]);
    // Nodes of that build cannot open the other form.
    expect(await formsOf(group)).toEqual(['s1']);
  });

  it('runs both builds again', async () => {
    await group.replace(first(group), currentBuild);
    await group.progress();
  });

  it('ends with new nodes alone, which use sub-keys from then on', async () => {
    await group.replace(first(group), currentBuild);
    await group.progress();
    expect(new Set((await levelsOf(group)).map(({ schema }) => schema))).toEqual(new Set([SCHEMA_LEVEL]));
    for (const { served } of group.nodes) {
      await eventually(async () => {
        const metrics = await (await fetch(`${served.url}/metrics`)).text();
        return metrics.includes('twinkeep_migrations_waiting 0\n');
      });
    }
    await group.addTenants(1);
    expect(await formsOf(group)).toEqual(['s1', 's2']);
    await group.progress();
  });

  it('has lost nothing, repeated no command, and let each device reconnect once for each node that it was on', async () => {
    expect(await group.verify()).toEqual([]);
    expect(await group.restlessDevices()).toEqual([]);
  });
});
