import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { eventually } from '../support/clock.ts';
import { eachDeployment } from '../support/deployment.ts';
import { connect, register } from '../support/device.ts';
import type { Fault } from '../support/faulty-store.ts';
import { freePorts, newOwner, type ServiceProcess, startProcess } from '../support/process.ts';
import { freePort } from '../support/programs.ts';
import { type Api, apiOf } from '../support/service.ts';
import { type Proposal, startSidecar, type TestSidecar } from '../support/sidecar.ts';

// Turns may hold more than one word, so that later moments cannot be named.
const faults: Fault[] = [
  { at: 'committed', of: 'plan', skip: 0 },
  { at: 'decided', of: 'plan', skip: 1 },
  { at: 'committed', of: 'plan', skip: 3 },
];

eachDeployment('a goal whose service is killed in the middle of it', (deployment) => {
  let settings: Record<string, string>;
  let service: ServiceProcess;
  let sidecar: TestSidecar;
  let owner: Api & { homeId: string };
  const devices: Device[] = [];
  const did: string[] = [];
  let nodes: Proposal[] = [];

  beforeAll(async () => {
    const port = await freePort();
    settings = { ...(await freePorts()), SIDECAR: 'external', SIDECAR_ADDRESS: `127.0.0.1:${port}` };
    // It has no memory: whatever it is shown, it says all of it again.
    sidecar = await startSidecar({
      port,
      heard(event, stream) {
        if (event.case !== 'perceptionUpdate') return;
        for (const { contextId } of event.value.activeContexts) {
          for (const proposal of nodes) stream.say({ contextId, proposal });
          stream.say({ contextId, proposal: { case: 'complete', value: { summary: 'It is light.' } } });
        }
      },
    });
    service = startProcess(deployment(), settings);
    await service.active;
    owner = await newOwner(deployment(), (token) => apiOf(`http://127.0.0.1:${settings.PORT}`, token));
    const ids: string[] = [];
    for (const name of ['first', 'second']) {
      const registered = await register(owner, { device_type: 'light', name });
      const turn_on = () => {
        did.push(name);
        return { state: { on: true } };
      };
      devices.push(await connect(registered, { commands: { turn_on } }));
      ids.push(registered.device_id);
    }
    nodes = ids.map((deviceId, place): Proposal => {
      const dependsOn = place === 0 ? [] : ['0'];
      return { case: 'graphNode', value: { node: { nodeId: `${place}`, deviceId, action: 'turn_on', dependsOn } } };
    });
  });
  afterAll(async () => {
    await Promise.all(devices.map((device) => device.close(0)));
    await service.kill();
    sidecar.kill();
  });

  /** Asks again, under its key, until it is answered. */
  function goal(): Promise<string> {
    const headers = { 'idempotency-key': randomUUID() };
    const payload = { text: 'Light it all, one after the other.', home_id: owner.homeId };
    return eventually(async () => {
      const { status, body } = await owner.post('/v1/intent', { type: 'goal', payload }, headers);
      return status === 200 ? body.plan_id : null;
    });
  }

  async function restarted(): Promise<void> {
    expect(await service.exited).toMatchObject({ signal: 'SIGKILL' });
    service = startProcess(deployment(), settings);
    await service.active;
  }

  it.each(deployment.share(faults))(
    'when $of $skip was $at is thought about again: no node twice, none left out',
    async (fault) => {
      did.length = 0;
      await service.arm(fault);
      const [id] = await Promise.all([goal(), restarted()]);
      const plan = await eventually(async () => {
        const { plan } = (await owner.get(`/v1/plans/${id}`)).body;
        return plan?.finished_at ? plan : null;
      });
      expect(plan).toMatchObject({ status: 'succeeded', steps: [{ id: '0' }, { id: '1' }] });
      expect(did).toEqual(['first', 'second']);
    },
  );
});
