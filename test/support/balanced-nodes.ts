import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { eventually } from './clock.ts';
import { type Deployment, makePostgresDeployment } from './deployment.ts';
import { connect, register, waitForCommand } from './device.ts';
import { freePort } from './programs.ts';
import { type ApiClient, makeApiClient } from './service.ts';
import { freePorts, newOwner, type Ports, type ServiceProcess, startServiceProcess } from './spawn-service.ts';

/** Where a balancer listens. */
export interface BalancerPorts {
  http: number;
  mqtt: number;
}

/** A load balancer that runs with a configuration of `deploy`. */
export interface BalancerProgram {
  /** The configuration with the ports of a test; everything else is as it is deployed. `folder`: for its files. */
  configurationFor(nodes: readonly Ports[], ports: BalancerPorts, folder: string): string;
  /** The program, with its arguments, in the foreground. */
  command(file: string): [string, ...string[]];
}

/** A file of `deploy`. */
export const deployed = (path: string): string =>
  readFileSync(new URL(`../../deploy/${path}`, import.meta.url), 'utf8');

export interface RunningBalancer {
  ports: BalancerPorts;
  url: string;
  folder: string;
  stop(): Promise<void>;
}

/** Starts the balancer before nodes with these ports, and waits until it forwards HTTP requests to one of them. */
export async function runBalancer(program: BalancerProgram, nodes: readonly Ports[]): Promise<RunningBalancer> {
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-balancer-'));
  // Worker processes may run as another user.
  chmodSync(folder, 0o755);
  const ports = { http: await freePort(), mqtt: await freePort() };
  const file = join(folder, 'configuration');
  writeFileSync(file, program.configurationFor(nodes, ports, folder));
  const [path, ...args] = program.command(file);
  const child: ChildProcess = spawn(path, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    output = `${output}${chunk}`.slice(-4_000);
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const url = `http://127.0.0.1:${ports.http}`;
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`the balancer ended (${child.exitCode}): ${output}`);
    return (await fetch(`${url}/health/ready`)).ok;
  });
  return {
    ...{ ports, url, folder },
    async stop() {
      // SIGTERM, so that it ends its worker processes.
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Three nodes, each a process, behind a balancer. */
export interface BalancedNodes {
  balancer: RunningBalancer;
  deployment: Deployment;
  /** Those that were not killed. */
  nodes: { ports: Ports; process: ServiceProcess }[];
  /** Through the balancer. */
  owner: ApiClient & { homeId: string; tenantId: string };
  stop(): Promise<void>;
}

export async function startBalancedNodes(program: BalancerProgram): Promise<BalancedNodes> {
  const deployment = (await makePostgresDeployment()) as Deployment;
  const nodes: BalancedNodes['nodes'] = [];
  for (let n = 0; n < 3; n++) {
    const ports = await freePorts();
    const env = { ...ports, NODE_ADDRESS: '127.0.0.1:0', TRUSTED_PROXIES: 'loopback' };
    nodes.push({ ports, process: startServiceProcess(deployment, env) });
  }
  const all = [...nodes];
  await Promise.all(nodes.map(({ process }) => process.active));
  const balancer = await runBalancer(
    program,
    nodes.map(({ ports }) => ports),
  );
  const owner = await newOwner(deployment, (token) => makeApiClient(balancer.url, token));
  return {
    ...{ balancer, deployment, nodes, owner },
    async stop() {
      await Promise.all([balancer.stop(), ...all.map(({ process }) => process.kill())]);
      await deployment.remove();
    },
  };
}

/** Commands reach a device through the balancer, also after all nodes but one have been killed, one after another. */
export async function expectServiceUntilOneNodeIsLeft({ owner, nodes, balancer }: BalancedNodes): Promise<void> {
  const device = await register(owner);
  const through = { ...device, mqtt_url: `mqtt://127.0.0.1:${balancer.ports.mqtt}` };
  const connected = await connect(through, { commands: { turn_on: () => ({ state: { on: true } }) } });
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
  expect(nodes).toHaveLength(1);
  await connected.close();
}
