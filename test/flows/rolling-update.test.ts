import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { DATA_LEVEL } from '../../src/domain/data-level.ts';
import { SCHEMA_LEVEL } from '../../src/store/postgres/migrations.ts';
import { currentBuild, previousBuild } from '../support/builds.ts';
import { eventually } from '../support/clock.ts';
import { register } from '../support/device.ts';
import { type GroupNode, NodeGroup } from '../support/node-group.ts';
import { setRecorded } from '../support/traffic.ts';

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
    setRecorded(false);
    group = await NodeGroup.open({ partsOfHistory: true });
  });
  afterAll(async () => {
    setRecorded(true);
    await group?.close();
  });

  it('starts with nodes of that build', async () => {
    await Promise.all([group.start(previous), group.start(previous)]);
  });

  it('has nodes that share the load', async () => {
    await group.settled();
    await group.addTenants(3);
    await group.progress();
  });

  it('runs both builds side by side once a new node was added', async () => {
    await group.start(currentBuild);
    await group.settled();
    await group.progress();
    expect(await levelsOf(group)).toEqual([
      { schema: 22, data: 1 },
      { schema: 22, data: 1 },
      { schema: SCHEMA_LEVEL, data: DATA_LEVEL },
    ]);
    // Nodes of the previous build cannot open the other form.
    expect(await formsOf(group)).toEqual(['s1']);
  });

  it('gives the shards of a new node that is killed to another new one', async () => {
    const [, , killed] = group.nodes as [GroupNode, GroupNode, GroupNode];
    await group.addTenants(1, killed);
    const { owner } = group.tenants.at(-1) as (typeof group.tenants)[number];
    const other = await group.start(currentBuild);
    await group.settled();
    await group.stop(killed, 'SIGKILL');
    await group.settled();
    expect(await group.nodeOf(owner.tenantId)).toBe(other);
    await group.progress();
  });

  it('confirms and repeats at a new node what was requested at an old one', async () => {
    await group.start(currentBuild);
    await group.settled();
    const [stopped, last] = group.nodes as [GroupNode, GroupNode];
    await group.addTenants(1, last);
    const { owner } = group.tenants.at(-1) as (typeof group.tenants)[number];
    await group.stop(stopped);
    await group.settled();
    expect(await group.nodeOf(owner.tenantId)).toBe(last);
    const commands = async (type: string) =>
      `/v1/device/${(await register(owner, { device_type: type })).device_id}/command`;
    const [light, lock] = [await commands('light'), await commands('lock')];
    const dim = () =>
      owner.post(light, { action: 'set_brightness', params: { level: 1 } }, { 'idempotency-key': 'dim' });
    const [answered, asked] = [await dim(), await owner.post(lock, { action: 'unlock' })];
    expect([answered.status, asked.status]).toEqual([202, 409]);
    await group.stop(last);
    await group.settled();
    expect((await dim()).body).toEqual(answered.body);
    const confirmed = await owner.post(`${lock}/confirm`, { dry_run_token: asked.body.dry_run_token });
    expect(confirmed.status).toBe(202);
  });

  it('ends with new nodes alone, which use sub-keys from then on', async () => {
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
