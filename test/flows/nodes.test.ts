import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { readTokenKey } from '../../src/config.ts';
import { shardOf } from '../../src/domain/shards.ts';
import { issueToken } from '../../src/main.ts';
import { PLATFORM_SCOPE } from '../../src/services/tokens.ts';
import { eventually } from '../support/clock.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { type ApiClient, makeApiClient } from '../support/service.ts';
import { freePorts, newOwner, type Ports, type ServiceProcess, startServiceProcess } from '../support/spawn-service.ts';
import { sql } from '../support/write-oracle.ts';

interface RunningNode extends ServiceProcess {
  ports: Ports;
  url: string;
}

describe.runIf(inject('postgresUrl'))('three nodes on one database', () => {
  let deployment: Deployment;
  const nodes: RunningNode[] = [];
  const closing: (() => Promise<unknown> | unknown)[] = [];
  let owner: ApiClient & { homeId: string; tenantId: string };

  async function startNode(STOP_DELAY = '1'): Promise<RunningNode> {
    const ports = await freePorts();
    const process = startServiceProcess(deployment, { ...ports, NODE_ADDRESS: '127.0.0.1:0', STOP_DELAY });
    const url = await process.listening;
    await process.active;
    const node = { ...process, ports, url };
    nodes.push(node);
    return node;
  }

  /** The number of shards of each node that owns some. */
  const shardsByNode = () =>
    sql<{ owner: string; address: string; shards: number }>(
      deployment.databaseUrl ?? '',
      `select owner, address, count(*)::integer as shards from shards join nodes on id = owner where nodes.epoch = 1
        group by owner, address`,
    );
  const spread = (count: number) =>
    eventually(async () => {
      const found = await shardsByNode();
      return found.length === count && found.every(({ shards }) => shards > 40);
    });
  const at = ({ url }: RunningNode, token = owner.token) => makeApiClient(url, token);
  /** A shard that moves can be refused for a moment. */
  const registerAt = (node: RunningNode) =>
    eventually(() => register({ ...at(node), homeId: owner.homeId }).catch(() => null));
  /** A shard can be handed over to a node that has just ended, and is then taken over. */
  const nodeOf = (tenantId: string): Promise<RunningNode> =>
    eventually(async () => {
      const [row] = await sql<{ address: string }>(
        deployment.databaseUrl ?? '',
        'select address from shards join nodes on id = owner where shard = $1',
        [shardOf(tenantId)],
      );
      return nodes.find(({ ports }) => row?.address.endsWith(`:${ports.PORT}`)) ?? null;
    });

  beforeAll(async () => {
    deployment = (await makePostgresDeployment()) as Deployment;
    const [first] = [await startNode(), await startNode(), await startNode()];
    owner = await newOwner(deployment, (token) => makeApiClient(first.url, token));
    await spread(3);
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.kill()));
    await deployment.remove();
  });

  it('answer each request alike, wherever it arrives', async () => {
    const device = await register(owner);
    for (const node of nodes) {
      const api = at(node);
      expect(await api.get(`/v1/devices/${device.device_id}`)).toMatchObject({ status: 200 });
      expect(await api.post(`/v1/device/${device.device_id}/command`, { action: 'turn_on' })).toMatchObject({
        status: 202,
      });
    }
    const { body } = await owner.get(`/v1/device/${device.device_id}/commands`);
    expect(body.commands).toHaveLength(3);
  });

  it('serve a device on any of them, and commands reach it from all', async () => {
    const device = await register(owner);
    for (const node of nodes) {
      const reached = { ...device, mqtt_url: `mqtt://127.0.0.1:${node.ports.MQTT_PORT}` };
      const connected = await connect(reached, { commands: { turn_on: () => ({ state: { on: true } }) } });
      for (const other of nodes) {
        const sent = await at(other).post(`/v1/device/${device.device_id}/command`, { action: 'turn_on' });
        expect(sent.status).toBe(202);
        await waitForCommand(at(other), sent.body.command_id, ({ status }) => status === 'succeeded');
      }
      await connected.close();
    }
  });

  it('are listed to operators, who drain and resume one through another', async () => {
    const [drained, through] = nodes as [RunningNode, RunningNode];
    const token = await issueToken(readTokenKey(deployment.env), { sub: 'operator', scope: PLATFORM_SCOPE, ttlS: 600 });
    const operator = at(through, token);
    type Listed = { id: string; address: string; shards: number; [member: string]: unknown };
    const list = async () => {
      const { body } = await operator.get('/v1/admin/nodes');
      const found: Listed[] = body.nodes;
      return { ...body, one: found.find(({ address }) => address.endsWith(`:${drained.ports.PORT}`)) as Listed };
    };
    const device = await register(owner);
    const listed = await list();
    expect(listed.nodes).toHaveLength(3);
    const sum = (member: string) =>
      listed.nodes.reduce((total: number, node: Listed) => total + Number(node[member]), 0);
    expect([sum('shards'), sum('tenants'), listed.shards_without_owner]).toEqual([256, 1, 0]);
    expect(sum('devices')).toBeGreaterThan(0);
    for (const { load, lease_age_ms } of listed.nodes) {
      expect(load).toMatchObject({ live_actors: expect.any(Number), rss_bytes: expect.any(Number) });
      expect(lease_age_ms).toBeGreaterThanOrEqual(0);
    }

    const path = `/v1/admin/nodes/${listed.one.id}`;
    expect(await operator.post(`${path}/drain`)).toMatchObject({ status: 200, body: { state: 'draining' } });
    await eventually(async () => (await list()).one.shards === 0);
    expect((await list()).one.state).toBe('draining');
    const { body: metrics } = await at(drained).get('/metrics');
    expect(metrics).toMatch(/^twinkeep_nodes_draining 1$/m);
    expect(metrics).toMatch(/^twinkeep_shards_open 0$/m);
    expect(metrics).toMatch(/^twinkeep_nodes_alive 3$/m);
    const forwarded = await at(drained).post(`/v1/device/${device.device_id}/command`, { action: 'turn_on' });
    expect(forwarded.status).toBe(202);
    expect(await at(drained).get('/health/ready')).toMatchObject({ status: 200 });
    expect((await operator.post(`${path}/resume`)).status).toBe(200);
    await spread(3);
  });

  it('are not ready from SIGTERM on, and accept requests until the delay has passed', async () => {
    const node = await startNode('300');
    expect((await at(node).get('/health/ready')).status).toBe(200);
    const exited = node.kill('SIGTERM');
    await eventually(async () => (await at(node).get('/health/ready')).status === 503);
    expect((await at(node).get('/health/ready')).body).toEqual({ status: 'stopping' });
    expect((await at(node).get('/v1/devices')).status).toBe(200);
    await node.kill();
    await exited;
    nodes.splice(nodes.indexOf(node), 1);
    await spread(3);
  });

  it('answer within seconds after the owner of the tenant was killed', async () => {
    const dead = await nodeOf(owner.tenantId);
    const [alive] = nodes.filter((node) => node !== dead) as [RunningNode];
    const device = await registerAt(alive);
    await dead.kill();
    nodes.splice(nodes.indexOf(dead), 1);
    await eventually(async () => {
      const { status } = await at(alive).post(`/v1/device/${device.device_id}/command`, { action: 'turn_on' });
      return status === 202;
    });
    await startNode();
    await spread(3);
  });

  it('hand over the shards of a node that is stopped: requests are answered, or refused for a moment with 503', async () => {
    const leaving = await nodeOf(owner.tenantId);
    const [other] = nodes.filter((node) => node !== leaving) as [RunningNode];
    const api = at(other);
    const device = await registerAt(other);
    let stopping = true;
    const statuses = new Map<number, number>();
    const requests = (async () => {
      while (stopping) {
        const { status } = await api.get(`/v1/devices/${device.device_id}`);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    })();
    expect(await leaving.kill('SIGTERM')).toMatchObject({ code: 0 });
    nodes.splice(nodes.indexOf(leaving), 1);
    await spread(2);
    stopping = false;
    await requests;
    expect([...statuses.keys()].filter((status) => status !== 503)).toEqual([200]);
    expect(await api.get(`/v1/devices/${device.device_id}`)).toMatchObject({ status: 200 });
  });
});
