import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { readTokenKey } from '../../src/config.ts';
import { DATA_LEVEL } from '../../src/domain/data-level.ts';
import { shardOf } from '../../src/domain/shards.ts';
import { issueToken } from '../../src/main.ts';
import { PLATFORM_SCOPE } from '../../src/services/tokens.ts';
import { SCHEMA_LEVEL } from '../../src/store/postgres/migrations.ts';
import { currentBuild, patchedBuild } from '../support/builds.ts';
import { eventually } from '../support/clock.ts';
import { type GroupNode, NodeGroup } from '../support/node-group.ts';
import { makeApiClient } from '../support/service.ts';

const first = (group: NodeGroup): GroupNode => group.nodes[0] as GroupNode;

describe.runIf(inject('postgresUrl'))('a rolling update to a build with a contract and a higher data level', () => {
  const contract = `  { id: ${SCHEMA_LEVEL + 1}, name: 'contract', sql: 'create table contract_applied ()', change: 'contract' },\n`;
  const next = patchedBuild([
    { file: 'store/postgres/migrations.ts', from: '\n];', to: `\n${contract}];` },
    { file: 'domain/data-level.ts', from: `DATA_LEVEL = ${DATA_LEVEL}`, to: `DATA_LEVEL = ${DATA_LEVEL + 1}` },
    // Commands of this version are of no use to the build before.
    {
      file: 'machines/versions.ts',
      from: 'command: [commandDefinitionV1, commandDefinition]',
      to: 'command: [commandDefinitionV1, commandDefinition, { ...commandDefinition, version: 99 }]',
    },
  ]);
  let group: NodeGroup;
  let operator: (node: GroupNode) => ReturnType<typeof makeApiClient>;

  beforeAll(async () => {
    group = await NodeGroup.open();
    const token = await issueToken(readTokenKey(group.env), { sub: 'operator', scope: PLATFORM_SCOPE, ttlS: 600 });
    operator = ({ served }) => makeApiClient(served.url, token);
  });
  afterAll(() => group.close());

  const metric = async (node: GroupNode, name: string): Promise<number> => {
    const { body } = await operator(node).get('/metrics');
    return Number(new RegExp(`^twinkeep_${name} (\\S+)$`, 'm').exec(body)?.[1]);
  };
  const isApplied = async (): Promise<boolean> => {
    const [row] = await group.sql<{ applied: boolean }>(
      `select to_regclass('contract_applied') is not null as applied`,
    );
    return row?.applied === true;
  };
  const quarantined = async (): Promise<number> => {
    const [row] = await group.sql<{ count: number }>(
      `select count(*)::integer as count from (select quarantine from devices union all select quarantine from commands
        union all select quarantine from plans union all select quarantine from tenants) actors where quarantine is not null`,
    );
    return row?.count ?? Number.NaN;
  };

  it('starts with nodes that migrate the database at the same time', async () => {
    await Promise.all([group.start(currentBuild), group.start(currentBuild)]);
  });

  it('has nodes that share the load', async () => {
    await group.settled();
    await group.addTenants(3);
    await group.progress();
  });

  it('waits with the contract while a node of the build before is alive', async () => {
    const node = await group.start(next);
    await group.settled();
    await group.addTenants(1, node);
    await group.progress();
    expect(await metric(node, 'migrations_waiting')).toBe(1);
    expect(await isApplied()).toBe(false);
    const versions = await group.sql<{ version: number }>(
      'select distinct machine_version as version from commands order by 1 desc limit 1',
    );
    expect(versions).toEqual([{ version: 99 }]);
  });

  it('refuses the tenants that only the new build can read while none of its nodes is alive, and quarantines nothing', async () => {
    const [old, , killed] = group.nodes as [GroupNode, GroupNode, GroupNode];
    await group.stop(killed, 'SIGKILL');
    // The killed node may have become the owner of shards until its end.
    let moved: { shard: number }[] = [];
    await eventually(async () => {
      moved = await group.sql<{ shard: number }>(`select shard from shards where data_level > ${DATA_LEVEL}`);
      return (await metric(old, 'shards_unreadable')) === moved.length;
    });
    const { body } = await operator(old).get('/v1/admin/nodes');
    expect([body.shards_without_owner, body.shards_unreadable]).toEqual([moved.length, moved.length]);
    expect(body.nodes.map((node: Record<string, unknown>) => node.data_level)).toEqual([DATA_LEVEL, DATA_LEVEL]);
    const shards = new Set(moved.map(({ shard }) => shard));
    const isUnreadable = (tenantId: string): boolean => shards.has(shardOf(tenantId));
    for (const { owner } of group.tenants.filter((tenant) => isUnreadable(tenant.owner.tenantId))) {
      expect((await makeApiClient(old.served.url, owner.token).get('/v1/devices')).status).toBe(503);
    }
    await group.progress(group.tenants.filter(({ owner }) => !isUnreadable(owner.tenantId)));
    await group.start(next, killed.ports);
    await group.settled();
    await group.progress();
    expect(await quarantined()).toBe(0);
  });

  it('waits with it until the last of them has ended', async () => {
    await group.replace(first(group), next);
    expect(await isApplied()).toBe(false);
    await group.stop(first(group));
    await eventually(isApplied);
  });

  it('has applied the contract, and refuses the build before from then on', async () => {
    for (const node of group.nodes) await eventually(async () => (await metric(node, 'migrations_waiting')) === 0);
    await group.progress();
    const refused = await group.spawn(currentBuild, undefined, { LOG_LEVEL: 'error' });
    const { code, stdout } = await refused.served.exited;
    expect([code, stdout]).toEqual([
      1,
      expect.stringContaining(
        `The database has migration ${SCHEMA_LEVEL + 1}, but this program version only knows ${SCHEMA_LEVEL}: start a newer version.`,
      ),
    ]);
  });

  it('has lost nothing and repeated no command', async () => {
    expect(await group.verify()).toEqual([]);
    expect(await quarantined()).toBe(0);
  });
});
