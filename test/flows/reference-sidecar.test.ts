import { Client, credentials, status } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { JsonObject } from '../../src/domain/values.ts';
import { calls, type ModelServer, modelServer, textReply } from '../sidecar/fake-model-server.ts';
import { capabilities, dial, goal } from '../sidecar/fake-service.ts';
import { eventually } from '../support/clock.ts';
import { oneDeployment } from '../support/deployment.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { freePort } from '../support/programs.ts';
import { RecordingDevices, submitGoal, waitForPlan } from '../support/recording-devices.ts';
import { makeApiClient, startService, type TestService } from '../support/service.ts';
import { type SidecarProcess, sidecarProcess } from '../support/sidecar-process.ts';
import { freePorts, newOwner, type Ports, type ServiceProcess, startServiceProcess } from '../support/spawn-service.ts';

describe('another program on the machine of the embedded sidecar', () => {
  it('gets no stream and no health check, and takes none from the service', async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const at = await startService({ SIDECAR: 'embedded', SIDECAR_ADDRESS: address });
    onTestFinished(() => at.stop());
    await eventually(() => at.services.sidecar.connected());
    const others = Array.from({ length: 12 }, (_, n) => dial(address, n % 2 === 0 ? null : 'guessed'));
    onTestFinished(() => others.forEach((other) => void other.hangUp()));
    for (const other of others) {
      other.send(capabilities());
      other.sendPerception([goal('c', 'lock the doors')]);
    }
    const reasons = await Promise.all(others.map(({ over }) => over));
    expect(new Set(reasons)).toEqual(new Set(['the token is missing or wrong']));
    expect(others.flatMap(({ received }) => received)).toEqual([]);
    const client = new Client(address, credentials.createInsecure());
    onTestFinished(() => client.close());
    const check = new Promise<number | undefined>((resolve) => {
      const asIs = (bytes: Buffer) => bytes;
      client.makeUnaryRequest('/grpc.health.v1.Health/Check', asIs, asIs, Buffer.of(), (error) => resolve(error?.code));
    });
    expect(await check).toBe(status.UNAUTHENTICATED);

    const owner = await at.owner();
    const home = new RecordingDevices();
    onTestFinished(() => home.close());
    await home.addLight(owner, 'Ceiling light');
    await waitForPlan(owner, await submitGoal(owner, 'Turn off the lights'), 'succeeded');
  });
});

describe('the embedded sidecar', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let home: RecordingDevices;
  beforeAll(async () => {
    at = await startService({ SIDECAR: 'embedded' });
  });
  beforeEach(async () => {
    owner = await at.owner();
    home = new RecordingDevices();
    for (const name of ['Ceiling light', 'Bed light']) await home.addLight(owner, name);
    await home.addDoorLock(owner, 'Front door');
  });
  afterEach(() => home.close());
  afterAll(() => at.stop());

  it('turns a goal into a plan, and summarizes the result', async () => {
    const plan = await waitForPlan(
      owner,
      await submitGoal(owner, 'Turn off the lights; then lock the front door'),
      'succeeded',
    );
    expect([home.actions.slice(0, 2).sort(), home.actions[2]]).toEqual([
      ['Bed light off', 'Ceiling light off'],
      'Front door lock',
    ]);
    expect(plan).toMatchObject({
      name: 'Turn off the lights; then lock the front door',
      created_by: owner.userId,
      cognition: { kind: 'goal', phase: 'done', summary: expect.stringContaining('3 of 3 steps done') },
    });
    const statuses = plan.steps.map(({ id, status }: { id: string; status: string }) => `${id} ${status}`);
    expect(statuses.sort()).toEqual([
      'bed-light-turn-off succeeded',
      'ceiling-light-turn-off succeeded',
      'front-door-lock succeeded',
    ]);
  });

  it('has completed steps rolled back when a step fails', async () => {
    home.broken.add('Front door');
    const memory = {
      kind: 'routine',
      subject: 'Good night',
      content: 'turn off the ceiling light; then lock the front door',
    };
    expect((await owner.post('/v1/memories', memory)).status).toBe(201);
    const plan = await waitForPlan(owner, await submitGoal(owner, 'good night'), 'rolled_back');
    expect(home.actions).toEqual(['Ceiling light off', 'Front door lock', 'Ceiling light on']);
    expect(plan.steps).toMatchObject([{ status: 'compensated' }, { status: 'failed' }]);
  });

  it('leaves a critical step to the confirmation by a person', async () => {
    await waitForPlan(owner, await submitGoal(owner, 'lock the front door'), 'succeeded');
    const id = await submitGoal(owner, 'unlock the front door');
    const waiting = await waitForPlan(owner, id, 'awaiting_confirmation');
    expect(home.actions).toEqual(['Front door lock']);
    const { body } = await owner.get('/v1/confirmations');
    expect(body.confirmations).toMatchObject([{ plan_id: id, action: 'unlock' }]);
    await owner.post(`/v1/confirmations/${waiting.steps[0].command_id}/approve`);
    await waitForPlan(owner, id, 'succeeded');
    expect(home.actions).toEqual(['Front door lock', 'Front door unlock']);
  });

  it('reports goals that it does not understand or that are already reached', async () => {
    const odd = await waitForPlan(owner, await submitGoal(owner, 'Sing me a song'), 'failed');
    expect(odd.cognition.error).toEqual({
      code: 'GOAL_NOT_UNDERSTOOD',
      detail: 'The rules do not understand "sing me song".',
    });
    const done = await waitForPlan(owner, await submitGoal(owner, 'turn on the lights'), 'succeeded');
    expect([done.steps, done.cognition.summary]).toEqual([[], 'Nothing to do: the goal is already reached.']);
  });

  it('locks a door that was unlocked and has not reported it', async () => {
    const registered = await register(owner, { device_type: 'door_lock', name: 'Garden gate' });
    const done: string[] = [];
    const act = (action: string, state?: JsonObject) => () => {
      done.push(action);
      return state && { state };
    };
    const commands = { unlock: act('unlock'), lock: act('lock', { locked: true }) };
    const gate = await connect(registered, { commands, state: { locked: true } });
    onTestFinished(() => gate.close(0));
    await eventually(async () => (await owner.get(`/v1/devices/${gate.deviceId}`)).body.device.state.locked === true);
    const nothing = await waitForPlan(owner, await submitGoal(owner, 'lock the garden gate'), 'succeeded');
    expect([nothing.steps, done]).toEqual([[], []]);
    const { command_id } = (await owner.post(`/v1/device/${gate.deviceId}/command`, { action: 'unlock' })).body;
    await owner.post(`/v1/confirmations/${command_id}/approve`);
    await waitForCommand(owner, command_id, ({ status }) => status === 'succeeded');
    await waitForPlan(owner, await submitGoal(owner, 'lock the garden gate'), 'succeeded');
    expect(done).toEqual(['unlock', 'lock']);
  });

  it('plans for one device: a requested action, or a goal', async () => {
    const id = home.ids.get('Bed light');
    const request = async (body: object) => {
      const answer = await owner.post(`/api/v1/devices/${id}/command`, body);
      expect(answer.status).toBe(202);
      return waitForPlan(owner, answer.body.plan_id, 'succeeded');
    };
    await eventually(async () => (await owner.post(`/api/v1/devices/${id}/command`, {})).status === 400);
    await waitForPlan(owner, await submitGoal(owner, 'turn on the lights'), 'succeeded'); // connected from here on
    await request({ action: 'turn_off' });
    await request({ goal: 'turn it on' });
    expect(home.actions).toEqual(['Bed light off', 'Bed light on']);
  });

  it('proposes steps for an observation, which run when a user accepts', async () => {
    await waitForPlan(owner, await submitGoal(owner, 'turn on the lights'), 'succeeded'); // connected from here on
    const memory = { kind: 'routine', content: 'when motion is false: turn off the lights' };
    expect((await owner.post('/v1/memories', memory)).status).toBe(201);
    const seen = await owner.post('/v1/cognition/observation', {
      device_id: home.ids.get('Front door'),
      data: { motion: false },
    });
    expect(seen.status).toBe(202);
    const proposal = await eventually(async () => {
      const { proposal: one } = (await owner.get(`/v1/cognition/proposals/${seen.body.proposal_id}`)).body;
      if (one.steps.length === 0) throw new Error(JSON.stringify(one));
      return one;
    });
    expect(proposal).toMatchObject({ status: 'pending', reason: 'motion is false (condition of a routine).' });
    expect(home.actions).toEqual([]);
    const accepted = await owner.post(`/v1/cognition/proposals/${seen.body.proposal_id}/accept`);
    expect(accepted.status).toBe(202);
    await waitForPlan(owner, accepted.body.plan.id, 'succeeded');
    expect([...home.actions].sort()).toEqual(['Bed light off', 'Ceiling light off']);
  });
});

describe('the embedded sidecar with a language model', () => {
  let model: ModelServer;
  let at: TestService;
  let home: RecordingDevices;
  beforeAll(async () => {
    home = new RecordingDevices();
    model = await modelServer((_request, n) =>
      n === 0 ? calls(['turn_off', { device_id: home.ids.get('Bed light') }]) : textReply('The bed light is off.'),
    );
    at = await startService({ SIDECAR: 'embedded', LLM_BASE_URL: model.url, LLM_MODEL: 'm', LLM_API_KEY: 'k' });
  });
  afterAll(async () => {
    await home.close();
    await at.stop();
    await model.close();
  });

  it('calls its functions, and ends with its summary', async () => {
    const owner = await at.owner();
    await home.addLight(owner, 'Bed light');
    const plan = await waitForPlan(owner, await submitGoal(owner, 'I want to sleep'), 'succeeded');
    expect(home.actions).toEqual(['Bed light off']);
    expect(plan.cognition.summary).toBe('The bed light is off.');
    expect(plan.steps).toMatchObject([{ id: '1-1', compensation: { action: 'turn_on' } }]);
    expect(model.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer k', 'Bearer k']);
    expect(model.requests[1]?.body.messages.at(-1)?.content).toContain('"result":"succeeded"');
  });
});

oneDeployment('a kill during a plan', (deployment) => {
  let sidecar: SidecarProcess;
  let service: ServiceProcess;
  let home: RecordingDevices;
  let ports: Ports;
  let owner: Awaited<ReturnType<typeof newOwner>>;
  const start = () =>
    startServiceProcess(deployment(), { ...ports, SIDECAR: 'external', SIDECAR_ADDRESS: sidecar.address });
  beforeAll(async () => {
    ports = await freePorts();
    sidecar = await sidecarProcess();
    await sidecar.start();
  });
  // A hook for each process, as a hook has a time limit.
  beforeAll(async () => {
    service = start();
    await service.active;
    owner = await newOwner(deployment(), (token) => makeApiClient(`http://127.0.0.1:${ports.PORT}`, token));
  });
  beforeEach(() => {
    home = new RecordingDevices();
  });
  afterEach(() => home.close());
  afterAll(async () => {
    await sidecar.kill();
    await service.kill();
  });

  async function underWay() {
    await home.addLight(owner, 'Ceiling light');
    await home.addDoorLock(owner, 'Front door');
    home.hold('Ceiling light');
    const id = await submitGoal(owner, 'turn off the ceiling light; then lock the front door');
    await eventually(() => home.actions.length === 1);
    await eventually(async () => (await owner.get(`/v1/plans/${id}`)).body.plan.steps.length === 2);
    return id;
  }
  const asPlanned = ['Ceiling light off', 'Front door lock'];

  it('of the sidecar: it continues from the contexts that it receives', async () => {
    const id = await underWay();
    await sidecar.kill();
    home.release('Ceiling light');
    await eventually(() => home.actions.length === 2);
    await sidecar.start();
    const plan = await waitForPlan(owner, id, 'succeeded');
    expect(home.actions).toEqual(asPlanned);
    expect(plan.cognition.summary).toContain('2 of 2 steps done');
  });

  it('of the service: no step twice, none left out', async () => {
    const id = await underWay();
    await service.kill();
    home.release('Ceiling light');
    service = start();
    await service.active;
    const plan = await waitForPlan(owner, id, 'succeeded');
    expect(home.actions).toEqual(asPlanned);
    expect(plan.steps.map(({ status }: { status: string }) => status)).toEqual(['succeeded', 'succeeded']);
  });
});
