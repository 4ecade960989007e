import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import type { CrashPoint } from '../support/crashing-store.ts';
import { eachDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { makeApiClient } from '../support/service.ts';
import {
  freePorts,
  frequentCompaction,
  newOwner,
  type Ports,
  type ServiceProcess,
  startServiceProcess,
} from '../support/spawn-service.ts';
import { Workload } from '../support/workload.ts';

/*
 * What is in the real store after a kill, so nearly all are after a commit. A kill before a commit leaves the store as it
 * was; the simulation tries these at random moments.
 */
const moments: [string, CrashPoint][] = [
  ['between committing a request and answering it', { at: 'committed', of: 'request' }],
  ['between committing a report and acknowledging it', { at: 'committed', of: 'report' }],
  ['between the mark of a critical command and its bytes', { at: 'committed', of: 'critical write' }],
  [
    'between committing an answer with its command and acknowledging it',
    { at: 'committed', of: 'sender and receiver' },
  ],
  ['between the release of an output and its mark', { at: 'decided', of: 'mark' }],
  ['between compacting reports and continuing with the next ones', { at: 'committed', of: 'compaction', skip: 4 }],
];

eachDeployment('a service that is killed repeatedly', (deployment) => {
  let ports: Ports;
  let service: ServiceProcess;
  let crowd: Workload;
  let owner: Awaited<ReturnType<typeof newOwner>>;

  beforeAll(async () => {
    ports = await freePorts();
    service = startServiceProcess(deployment(), { ...ports, ...frequentCompaction });
    await service.active;
    owner = await newOwner(deployment(), (token) => makeApiClient(`http://127.0.0.1:${ports.PORT}`, token));
    crowd = new Workload(owner);
    await Promise.all([crowd.addDevice(), crowd.addDevice(), crowd.addDevice({ critical: true })]);
  });
  afterAll(async () => {
    await crowd.close();
    await service.kill();
  });

  async function restart() {
    expect(await service.exited).toMatchObject({ signal: 'SIGKILL' });
    service = startServiceProcess(deployment(), { ...ports, ...frequentCompaction });
    await service.active;
    await crowd.waitForProgress();
  }

  it.each(deployment.share(moments))('continues after it was killed %s', async (_when, fault) => {
    const { device_id } = await register(owner, { device_type: 'light' });
    await service.armCrash(fault);
    // Commands of a loaded device are delivered within its own batch; only a revocation uses the outbox. The service
    // may be killed by it.
    if (fault.of === 'mark') await owner.post(`/v1/device/${device_id}/revoke`, {}).catch(() => null);
    await restart();
  });

  it('continues after it was killed at a random moment, and fires a timer that was set before', async () => {
    const absent = await register(owner, { device_type: 'light' });
    const { body } = await owner.post(`/v1/device/${absent.device_id}/command`, { action: 'turn_on', ttl_s: 1 });
    await crowd.waitForProgress();
    await service.kill();
    await restart();
    await eventually(async () => {
      const { command } = (await owner.get(`/v1/commands/${body.command_id}`)).body;
      return command.status === 'expired';
    });
  });

  it('continues after it was stopped', async () => {
    expect(await service.kill('SIGTERM')).toMatchObject({ code: 0 });
    service = startServiceProcess(deployment(), { ...ports, ...frequentCompaction });
    await service.active;
    await crowd.waitForProgress();
  });

  it('lost nothing that it had acknowledged, applied nothing twice, and has each report in the history once', async () => {
    await crowd.verify();
  });
});
