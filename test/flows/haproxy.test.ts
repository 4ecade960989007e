import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { freePort } from '../support/programs.ts';
import { type ApiClient, makeApiClient } from '../support/service.ts';
import { freePorts, newOwner, type Ports, type ServiceProcess, startServiceProcess } from '../support/spawn-service.ts';

const { haproxy } = inject('programs');
const configuration = readFileSync(new URL('../../deploy/haproxy/haproxy.cfg', import.meta.url), 'utf8');

/** The configuration with the ports of a test; everything else is as it is deployed. */
function configurationFor(nodes: readonly Ports[], { http, mqtt }: { http: number; mqtt: number }): string {
  const bound = configuration
    .replace('bind :8080', `bind 127.0.0.1:${http}`)
    .replace('bind :1883', `bind 127.0.0.1:${mqtt}`);
  return nodes.reduce(
    (text, { PORT, MQTT_PORT }, n) =>
      text
        .replace(`node${n + 1}:1883 port 8080`, `127.0.0.1:${MQTT_PORT} port ${PORT}`)
        .replace(`node${n + 1}:8080`, `127.0.0.1:${PORT}`),
    bound,
  );
}

describe.runIf(inject('postgresUrl') && haproxy)('three nodes behind HAProxy', () => {
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-haproxy-'));
  const ports = { http: 0, mqtt: 0 };
  const nodes: { ports: Ports; process: ServiceProcess }[] = [];
  let deployment: Deployment;
  let balancer: ChildProcess;
  let owner: ApiClient & { homeId: string };

  beforeAll(async () => {
    deployment = (await makePostgresDeployment()) as Deployment;
    [ports.http, ports.mqtt] = [await freePort(), await freePort()];
    for (let n = 0; n < 3; n++) {
      const own = await freePorts();
      const process = startServiceProcess(deployment, {
        ...own,
        NODE_ADDRESS: '127.0.0.1:0',
        TRUSTED_PROXIES: 'loopback',
        MQTT_PUBLIC_URL: `mqtt://127.0.0.1:${ports.mqtt}`,
      });
      nodes.push({ ports: own, process });
    }
    await Promise.all(nodes.map(({ process }) => process.active));
    const file = join(folder, 'haproxy.cfg');
    writeFileSync(
      file,
      configurationFor(
        nodes.map((node) => node.ports),
        ports,
      ),
    );
    balancer = spawn(haproxy as string, ['-db', '-f', file], { stdio: 'ignore' });
    const url = `http://127.0.0.1:${ports.http}`;
    await eventually(async () => (await fetch(`${url}/health/ready`)).ok);
    owner = await newOwner(deployment, (token) => makeApiClient(url, token));
  });
  afterAll(async () => {
    balancer?.kill('SIGKILL');
    await Promise.all(nodes.map(({ process }) => process.kill()));
    await deployment.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  it('keep a client with cookies at one node', async () => {
    const first = await owner.get('/v1/devices');
    const cookie = /twinkeep_node=(node\d)/.exec(first.headers.get('set-cookie') ?? '')?.[0] as string;
    expect(cookie).toBeDefined();
    const again = await owner.get('/v1/devices', { cookie });
    expect(again.status).toBe(200);
    expect(again.headers.get('set-cookie')).toBe(null);
  });

  it('serve devices by MQTT, and go on when a node ends', async () => {
    const device = await register(owner);
    const connected = await connect(device, { commands: { turn_on: () => ({ state: { on: true } }) } });
    const send = async () => {
      const sent = await eventually(async () => {
        const answer = await owner
          .post(`/v1/device/${device.device_id}/command`, { action: 'turn_on' })
          .catch(() => null);
        return answer?.status === 202 ? answer : null;
      });
      await waitForCommand(owner, sent.body.command_id, ({ status }) => status === 'succeeded');
    };
    await send();
    for (const { process } of nodes.splice(0, 2)) {
      await process.kill();
      await eventually(() => connected.online);
      await send();
    }
    await connected.close();
  });
});
