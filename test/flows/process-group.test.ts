import { execFileSync, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { nodeEnv, nodeFlags } from '../support/node-flags.ts';
import { makeApiClient } from '../support/service.ts';
import { freePorts, newOwner } from '../support/spawn-service.ts';

const commandLine = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));

function serve(env: Record<string, string>, ...args: string[]) {
  const child = spawn(process.execPath, [...nodeFlags, commandLine, 'serve', ...args], {
    env: { ...nodeEnv, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk;
  });
  const ended = new Promise<{ code: number | null; stderr: string }>((resolve) => {
    child.once('close', (code) => resolve({ code, stderr }));
  });
  return { child, ended, output: () => stderr };
}

describe.runIf(inject('postgresUrl'))('serve with several processes', () => {
  let deployment: Deployment;
  let service: ReturnType<typeof serve>;
  let url: string;

  /** The processes of the group. */
  function pids(): number[] {
    try {
      return execFileSync('pgrep', ['-P', `${service.child.pid}`], { encoding: 'utf8' })
        .trim()
        .split('\n')
        .map(Number);
    } catch {
      return []; // It exits with 1 if there is none.
    }
  }

  beforeAll(async () => {
    deployment = (await makePostgresDeployment()) as Deployment;
    const ports = await freePorts();
    service = serve({ ...deployment.env, ...ports }, '--processes', '2');
    url = `http://127.0.0.1:${ports.PORT}`;
    await eventually(() => service.output().includes('with 2 processes'));
  });
  afterAll(async () => {
    service.child.kill('SIGKILL');
    await service.ended;
    await deployment.remove();
  });

  it('shares the ports among them', async () => {
    const owner = await newOwner(deployment, (token) => makeApiClient(url, token));
    const device = await register(owner);
    for (let n = 0; n < 4; n++) {
      // Each connection is given to the next process.
      const api = makeApiClient(url, owner.token);
      expect(await api.get(`/v1/devices/${device.device_id}`, { connection: 'close' })).toMatchObject({ status: 200 });
    }
  });

  it('leaves no connection to a process that does not accept it', async () => {
    const [paused] = pids() as [number, number];
    process.kill(paused, 'SIGSTOP');
    try {
      const live = () => fetch(`${url}/health/live`, { headers: { connection: 'close' } });
      const answers = await Promise.all(Array.from({ length: 8 }, live));
      expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    } finally {
      process.kill(paused, 'SIGCONT');
    }
  });

  it('lets requests wait for a process that starts', async () => {
    for (const pid of pids()) process.kill(pid, 'SIGKILL');
    const answer = async () => (await fetch(`${url}/version`).catch(() => null))?.status;
    const answers = new Set<number | undefined>();
    await eventually(async () => answers.add(await answer()).has(200));
    expect([...answers].filter((status) => status !== undefined)).toEqual([200]);
  });

  it('starts a process again that was killed, while the other one serves', async () => {
    const [killed, other] = pids() as [number, number];
    process.kill(killed, 'SIGKILL');
    await eventually(() => pids().length === 2 && !pids().includes(killed));
    await eventually(async () => (await fetch(`${url}/health/ready`)).ok);
    expect(pids()).toContain(other);
  });

  it('ends all of them on SIGTERM, with 0', async () => {
    const running = pids();
    service.child.kill('SIGTERM');
    expect(await service.ended).toMatchObject({ code: 0 });
    for (const pid of running) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });

  it.each([
    ['DATABASE_URL is required for more than one process', { DATABASE_URL: '' }],
    ['SIDECAR_ADDRESS must be unset', { SIDECAR: 'embedded', SIDECAR_ADDRESS: '127.0.0.1:50000' }],
  ])('is refused with a reason: %s', async (message, env) => {
    const refused = serve({ ...deployment.env, ...env }, '--processes', '2');
    const { code, stderr } = await refused.ended;
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
