import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { eventually } from '../support/clock.ts';
import type { CrashPoint } from '../support/crashing-store.ts';
import { oneDeployment } from '../support/deployment.ts';
import { connect, register } from '../support/device.ts';
import { makeApiClient } from '../support/service.ts';
import { type SidecarStream, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { freePorts, newOwner, type Ports, type ServiceProcess, startServiceProcess } from '../support/spawn-service.ts';

type Owner = Awaited<ReturnType<typeof newOwner>>;

/**
 * The plan of a goal takes at least four commits: its start, the proposals, the end of a, and the ends of b and c.
 * Later moments exist only if no two of these share a commit.
 */
const faults: CrashPoint[] = [
  { at: 'committed', of: 'plan', skip: 0 },
  { at: 'decided', of: 'plan', skip: 1 },
  { at: 'committed', of: 'plan', skip: 1 },
  { at: 'decided', of: 'plan', skip: 3 },
];

oneDeployment('a goal whose service is killed while it runs', (deployment) => {
  let ports: Ports;
  let service: ServiceProcess;
  let sidecar: TestSidecar;
  let owner: Owner;
  let thinking: NodeJS.Timeout;
  const did: string[] = [];
  const ids = new Map<string, string>();
  const devices: Device[] = [];

  const start = (): ServiceProcess =>
    startServiceProcess(deployment(), { ...ports, SIDECAR: 'external', SIDECAR_ADDRESS: sidecar.address });

  async function light(name: string): Promise<void> {
    const registered = await register(owner, { device_type: 'light', name });
    const turn_on = () => {
      did.push(name);
      return { state: { on: true } };
    };
    devices.push(await connect(registered, { commands: { turn_on } }));
    ids.set(name, registered.device_id);
  }

  /** The proposals for each context, repeated whenever the context is sent again. */
  function think(stream: SidecarStream, received: number): number {
    const shown = stream.eventsOf('perceptionUpdate');
    for (const { activeContexts } of shown.slice(received)) {
      for (const { contextId } of activeContexts) {
        for (const [nodeId, ...dependsOn] of [['a'], ['b', 'a'], ['c', 'a']] as [string, ...string[]][]) {
          const node = { nodeId, deviceId: ids.get(nodeId) ?? '', action: 'turn_on', dependsOn };
          stream.send({ contextId, proposal: { case: 'graphNode', value: { node } } });
        }
        stream.send({ contextId, proposal: { case: 'complete', value: { summary: 'There is light.' } } });
      }
    }
    return shown.length;
  }

  beforeAll(async () => {
    ports = await freePorts();
    sidecar = await startSidecar();
    const received = new Map<SidecarStream, number>();
    thinking = setInterval(() => {
      for (const stream of sidecar.streams) received.set(stream, think(stream, received.get(stream) ?? 0));
    }, 20);
    service = start();
    await service.active;
    owner = await newOwner(deployment(), (token) => makeApiClient(`http://127.0.0.1:${ports.PORT}`, token));
    for (const name of ['a', 'b', 'c']) await light(name);
  });
  afterAll(async () => {
    clearInterval(thinking);
    await Promise.all(devices.map((device) => device.close(0)));
    await service.kill();
    sidecar.kill();
  });

  /** Retries with the same key until there is a response: the sidecar may not be connected yet. */
  async function goal(): Promise<string> {
    const headers = { 'idempotency-key': randomUUID() };
    const payload = { text: 'Light, please.', home_id: owner.homeId };
    return eventually(async () => {
      const { status, body } = await owner.post('/v1/intent', { type: 'goal', payload }, headers);
      return status === 200 ? body.plan_id : null;
    });
  }

  async function restarted(): Promise<void> {
    expect(await service.exited).toMatchObject({ signal: 'SIGKILL' });
    service = start();
    await service.active;
  }

  it.each(faults)(
    'continues after a kill when commit $skip of its plan was $at: no step twice, none left out',
    async (fault) => {
      did.length = 0;
      await service.armCrash(fault);
      const [id] = await Promise.all([goal(), restarted()]);
      const plan = await eventually(async () => {
        const { plan: now } = (await owner.get(`/v1/plans/${id}`)).body;
        return now?.status === 'succeeded' ? now : null;
      });
      expect(plan.steps.map((step: { id: string; status: string }) => `${step.id} ${step.status}`)).toEqual([
        ...['a succeeded', 'b succeeded', 'c succeeded'],
      ]);
      expect([did[0], [...did].sort()]).toEqual(['a', ['a', 'b', 'c']]);
      expect(plan.cognition).toMatchObject({ phase: 'done', summary: 'There is light.' });
    },
  );
});
