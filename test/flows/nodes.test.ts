import { beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { type RunningNode, RunningNodes, type TenantOwner } from '../support/running-nodes.ts';
import { makeApiClient } from '../support/service.ts';

describe.runIf(inject('postgresUrl'))('three nodes on one database', () => {
  const running = new RunningNodes();
  const { nodes } = running;
  let owner: TenantOwner;
  beforeEach(() => running.restore());
  const at = ({ url }: RunningNode, token = owner.token) => makeApiClient(url, token);

  beforeAll(async () => {
    owner = await running.owner('owner');
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
    const operator = await running.operator(through);
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
    await running.spread();
  });

  it('are not ready from SIGTERM on, and accept requests until the delay has passed', async () => {
    const node = await running.add({ STOP_DELAY: '300' });
    expect((await at(node).get('/health/ready')).status).toBe(200);
    const exited = node.kill('SIGTERM');
    await eventually(async () => (await at(node).get('/health/ready')).status === 503);
    expect((await at(node).get('/health/ready')).body).toEqual({ status: 'stopping' });
    expect((await at(node).get('/v1/devices')).status).toBe(200);
    await running.end(node);
    await exited;
    await running.spread();
  });

  /** Requests of a client without retries at a node until `work` has ended, and the statuses of all responses. */
  async function statusesDuring(node: RunningNode, path: string, work: Promise<unknown>): Promise<number[]> {
    const statuses = new Set<number>();
    let isOver = false;
    const over = work.finally(() => {
      isOver = true;
    });
    while (!isOver) statuses.add((await at(node).get(path)).status);
    await over;
    return [...statuses];
  }

  it.each([
    ['killed and its shards are taken over', 'SIGKILL', { signal: 'SIGKILL' }],
    ['stopped and its shards are handed over', 'SIGTERM', { code: 0 }],
  ] as const)('answer requests while the owner of the tenant is %s', async (_, signal, exit) => {
    const leaving = await running.ownerOf(owner.tenantId);
    const [staying] = (await running.othersOf(owner.tenantId)) as [RunningNode];
    const device = await register({ ...at(staying), homeId: owner.homeId });
    const moved = async () => {
      expect(await running.end(leaving, signal)).toMatchObject(exit);
      await running.spread();
    };
    expect(await statusesDuring(staying, `/v1/devices/${device.device_id}`, moved())).toEqual([200]);
    const sent = await at(staying).post(`/v1/device/${device.device_id}/command`, { action: 'turn_on' });
    expect(sent.status).toBe(202);
  });
});
