import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ContextKind, InterruptReason, NodeState } from '#proto/cognition/v1/runtime_pb.js';
import type { Device } from '../../src/device/device.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { eventually } from '../support/clock.ts';
import { connect, register } from '../support/device.ts';
import { freePort } from '../support/programs.ts';
import { type ApiClient, type ApiResponse, startService, type TestService } from '../support/service.ts';
import { type SidecarStream, startSidecar, type TestSidecar } from '../support/sidecar.ts';

const limits = { sidecar: { backoff: { firstMs: 20, maxMs: 100 }, coalesceMs: 100, idleHomeIntervalMs: 50 } };

const rejected = (stream: SidecarStream) =>
  stream.eventsOf('graphStateUpdate').filter(({ to }) => to === NodeState.REJECTED);
const shown = (stream: SidecarStream, contextId: string) =>
  stream
    .eventsOf('perceptionUpdate')
    .findLast(({ activeContexts }) => activeContexts.some((context) => context.contextId === contextId));
const onNode = (deviceId: string, nodeId = 'on') =>
  ({ case: 'graphNode', value: { node: { nodeId, deviceId, action: 'turn_on' } } }) as const;
const complete = { case: 'complete', value: { summary: 'It is done.' } } as const;

describe('a sidecar over gRPC', () => {
  let port: number;
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let sidecar: TestSidecar;
  let devices: Device[];

  const restart = async () => {
    const { service } = at;
    await service.stop();
    at = await startService(
      { SIDECAR: 'external', SIDECAR_ADDRESS: `127.0.0.1:${port}`, DATA_DIR: at.dataDir },
      { limits },
    );
  };
  const anew = async (): Promise<SidecarStream> => {
    sidecar = await startSidecar({ port });
    await eventually(async () => at.services.sidecar.connected());
    return sidecar.waitForStream();
  };
  /** A light that turns on when commanded, once `ready` resolves. */
  async function light(of: ApiClient & { homeId: string } = owner, ready: Promise<unknown> = Promise.resolve()) {
    const registered = await register(of, { device_type: 'light', name: 'Lamp' });
    const turn = (on: boolean) => async () => {
      await ready;
      return { state: { on } };
    };
    const device = await connect(registered, { commands: { turn_on: turn(true), turn_off: turn(false) } });
    devices.push(device);
    return { device, id: registered.device_id as string };
  }
  const goal = async (text = 'light the hall', of: ApiClient & { homeId: string } = owner): Promise<string> => {
    const { status, body } = await of.post('/v1/intent', { type: 'goal', payload: { text, home_id: of.homeId } });
    expect(body).toMatchObject({ status: 'PENDING', mode: 'CLOUD_ENHANCED' });
    expect(status).toBe(200);
    return body.plan_id;
  };
  const planWith = (id: string, status: string, of: ApiClient = owner): Promise<ApiResponse['body']> =>
    eventually(async () => {
      const { plan } = (await of.get(`/v1/plans/${id}`)).body;
      return plan?.status === status ? plan : null;
    });
  /** Checks that the service still serves other clients, whatever the sidecar does. */
  const healthy = async () => {
    expect((await at.api().get('/health')).status).toBe(200);
    const { id } = await light();
    const { body } = await owner.post(`/v1/device/${id}/command`, { action: 'turn_on' });
    await eventually(
      async () => (await owner.get(`/v1/commands/${body.command_id}`)).body.command.status === 'succeeded',
    );
  };

  beforeAll(async () => {
    port = await freePort();
    at = await startService({ SIDECAR: 'external', SIDECAR_ADDRESS: `127.0.0.1:${port}` }, { limits });
  });
  beforeEach(async () => {
    devices = [];
    owner = await at.owner(`owner-${performance.now()}`);
    await anew();
  });
  afterEach(async () => {
    sidecar.kill();
    await Promise.all(devices.map((device) => device.close(0)));
    await eventually(() => !at.services.sidecar.connected());
  });
  afterAll(() => at.stop());

  it('a goal becomes a plan whose nodes run as they are proposed, with an event to the sidecar for each', async () => {
    const lamp = await light();
    const { stream } = sidecar;
    const id = await goal('light the hall');
    const notified = await eventually(() => shown(stream, id));
    expect(notified).toMatchObject({ tenantId: owner.tenantId, homeId: owner.homeId });
    expect(notified.activeContexts).toMatchObject([{ kind: ContextKind.GOAL, text: 'light the hall', nodes: [] }]);
    expect(notified.devices).toMatchObject([{ deviceId: lamp.id, name: 'Lamp', online: true, category: 'light' }]);
    stream.send({ proposalId: 'p-1', contextId: id, proposal: onNode(lamp.id) });
    stream.send({ contextId: id, proposal: complete });
    const plan = await planWith(id, 'succeeded');
    expect(plan).toMatchObject({ steps: [{ id: 'on', device_id: lamp.id, status: 'succeeded' }] });
    await eventually(() => stream.eventsOf('graphStateUpdate').some(({ to }) => to === NodeState.SUCCEEDED));
    const states = stream.eventsOf('graphStateUpdate').filter(({ contextId }) => contextId === id);
    expect(states[0]).toMatchObject({ from: NodeState.UNSPECIFIED, proposalId: 'p-1' });
    for (const [before, after] of states.slice(1).map((state, place) => [states[place], state])) {
      expect(after?.from).toBe(before?.to);
    }
    const [outcome] = await eventually(
      () => (stream.eventsOf('observationOutcome').length && stream.eventsOf('observationOutcome')) || null,
    );
    expect(outcome).toMatchObject({ contextId: id, nodeId: 'on', success: true, deviceState: { on: true } });
    expect(outcome?.commandId).toBe(plan.steps[0].command_id);
    const metrics = await (await fetch(`${at.url}/metrics`)).text();
    expect(metrics).toContain('twinkeep_sidecar_connected 1');
    expect(metrics).toMatch(/twinkeep_sidecar_proposals_total\{kind="graphNode"\} \d/);
  });

  it('that was killed during a plan receives the missed results when it reconnects', async () => {
    let finish = () => {};
    const ready = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const lamp = await light(owner, ready);
    const id = await goal();
    await eventually(() => shown(sidecar.stream, id));
    sidecar.stream.send({ contextId: id, proposal: onNode(lamp.id) });
    await eventually(() => sidecar.stream.eventsOf('graphStateUpdate').some(({ to }) => to === NodeState.RUNNING));
    sidecar.kill();
    await eventually(() => !at.services.sidecar.connected());
    finish();
    await eventually(async () => (await owner.get(`/v1/plans/${id}`)).body.plan.steps[0].status === 'succeeded');
    expect((await owner.get(`/v1/plans/${id}`)).body.plan.status).toBe('running');
    const stream = await anew();
    const notified = await eventually(() => shown(stream, id));
    expect(notified.activeContexts[0]?.nodes).toMatchObject([
      { node: { nodeId: 'on', deviceId: lamp.id, action: 'turn_on' }, state: NodeState.SUCCEEDED },
    ]);
    stream.send({ contextId: id, proposal: complete });
    await planWith(id, 'succeeded');
  });

  it('a restarted service continues with contexts that wait for the sidecar', async () => {
    const lamp = await light();
    const id = await goal();
    await eventually(() => shown(sidecar.stream, id));
    const { token, homeId } = owner;
    await Promise.all(devices.splice(0).map((device) => device.close(0)));
    await restart();
    owner = { ...at.api(token), homeId, tenantId: owner.tenantId, userId: owner.userId };
    const stream = await sidecar.waitForStream(2);
    await eventually(() => shown(stream, id));
    stream.send({ proposalId: 'p-1', contextId: id, proposal: onNode(lamp.id) });
    await eventually(() => stream.eventsOf('graphStateUpdate').some(({ proposalId }) => proposalId === 'p-1'));
    expect(rejected(stream)).toEqual([]);
  });

  it('a goal is refused without a sidecar, with that reason', async () => {
    sidecar.kill();
    await eventually(() => !at.services.sidecar.connected());
    const payload = { text: 'light the hall' };
    const { status, body } = await owner.post('/v1/intent', { type: 'goal', payload });
    expect([status, body.code]).toEqual([503, 'SIDECAR_UNAVAILABLE']);
  });

  it('gets no data of another tenant in a context, and cannot use devices of another tenant', async () => {
    const other = await at.owner(`other-${performance.now()}`);
    const mine = await light();
    const theirs = await light(other);
    const { stream } = sidecar;
    const id = await goal();
    const otherId = await goal('theirs', other);
    await eventually(() => shown(stream, id) && shown(stream, otherId));
    const text = JSON.stringify(shown(stream, id), (_, value) => (typeof value === 'bigint' ? `${value}` : value));
    for (const secret of [other.tenantId, other.homeId, theirs.id, otherId]) expect(text).not.toContain(secret);
    stream.send({ proposalId: 'p-1', contextId: id, proposal: onNode(theirs.id) });
    await eventually(() => rejected(stream).length === 1);
    expect(rejected(stream)).toMatchObject([{ contextId: id, nodeId: 'on', proposalId: 'p-1', code: 'NOT_FOUND' }]);
    expect((await other.get(`/v1/device/${theirs.id}/commands`)).body.commands).toEqual([]);
    stream.send({ contextId: id, proposal: onNode(mine.id) });
    stream.send({ contextId: id, proposal: complete });
    await planWith(id, 'succeeded');
  });

  it('a critical node waits in the inbox for a person, and the sidecar is notified', async () => {
    const lock = await register(owner, { device_type: 'lock' });
    const { stream } = sidecar;
    const id = await goal('open up');
    await eventually(() => shown(stream, id));
    const node = { nodeId: 'unlock', deviceId: lock.device_id, action: 'unlock' };
    stream.send({ contextId: id, proposal: { case: 'graphNode', value: { node } } });
    stream.send({ contextId: id, proposal: complete });
    await planWith(id, 'awaiting_confirmation');
    await eventually(() =>
      stream.eventsOf('graphStateUpdate').some(({ to }) => to === NodeState.AWAITING_CONFIRMATION),
    );
    const { confirmations } = (await owner.get('/v1/confirmations')).body;
    expect(confirmations).toMatchObject([{ plan_id: id, device_id: lock.device_id, action: 'unlock' }]);
    expect((await owner.post(`/v1/confirmations/${confirmations[0].command_id}/refuse`)).status).toBe(200);
    await eventually(() => stream.eventsOf('graphStateUpdate').some(({ to }) => to === NodeState.FAILED));
  });

  it('messages after the completion, or for an unknown context, are answered and change nothing', async () => {
    const lamp = await light();
    const { stream } = sidecar;
    const id = await goal();
    await eventually(() => shown(stream, id));
    stream.send({ contextId: id, proposal: complete });
    await planWith(id, 'succeeded');
    const words = [onNode(lamp.id), { case: 'suspend', value: { reason: 'hm' } } as const, complete] as const;
    for (const proposal of words) stream.send({ proposalId: proposal.case, contextId: id, proposal });
    stream.send({ contextId: owner.tenantId, proposal: onNode(lamp.id) });
    await eventually(() => rejected(stream).length === 4);
    const codes = rejected(stream).map(({ contextId, code }) => [contextId, code]);
    expect(codes.filter(([contextId]) => contextId === id)).toEqual(words.map(() => [id, 'CONFLICT']));
    expect(codes.filter(([contextId]) => contextId !== id)).toEqual([[owner.tenantId, 'NOT_FOUND']]);
    expect((await owner.get(`/v1/device/${lamp.id}/commands`)).body.commands).toEqual([]);
  });

  it('false values in each field are refused one by one', async () => {
    const lamp = await light();
    const { stream } = sidecar;
    const id = await goal();
    await eventually(() => shown(stream, id));
    const good = { nodeId: 'on', deviceId: lamp.id, action: 'turn_on' };
    const lies: object[] = [
      { nodeId: '' },
      { nodeId: 'x'.repeat(65) },
      { nodeId: 'a\u0000' },
      { deviceId: '' },
      { deviceId: 'the lamp' },
      { deviceId: owner.homeId },
      { action: '' },
      { action: 'x'.repeat(129) },
      { params: { a: 'x'.repeat(64 * 1024) } },
      { params: { level: Number.NaN } },
      { dependsOn: ['nobody'] },
      { dependsOn: ['on'] },
      { timeoutS: 3_601 },
      { compensation: { action: '' } },
    ];
    for (const [place, lie] of lies.entries()) {
      const value = { node: { ...good, ...lie } } as { node: typeof good };
      stream.send({ proposalId: `lie-${place}`, contextId: id, proposal: { case: 'graphNode', value } });
    }
    await eventually(() => rejected(stream).length === lies.length);
    expect(rejected(stream).map(({ proposalId, code }) => [proposalId, code])).toEqual(
      lies.map((lie, place) => [
        `lie-${place}`,
        'deviceId' in lie && lie.deviceId === owner.homeId ? 'NOT_FOUND' : 'VALIDATION_FAILED',
      ]),
    );
    const { plan } = (await owner.get(`/v1/plans/${id}`)).body;
    expect(plan).toMatchObject({ status: 'pending', steps: [] });
    stream.send({ contextId: id, proposal: onNode(lamp.id) });
    stream.send({ contextId: id, proposal: complete });
    await planWith(id, 'succeeded');
  });

  it('an oversized message, invalid bytes and a flood leave the service unaffected', async () => {
    const id = await goal();
    await eventually(() => shown(sidecar.stream, id));
    const detail = 'x'.repeat(1024 * 1024);
    sidecar.stream.send({ contextId: id, proposal: { case: 'error', value: { code: 'X', detail } } });
    await sidecar.waitForStream(2);
    await eventually(() => shown(sidecar.stream, id));
    sidecar.stream.sendBytes(new Uint8Array([0xff, 0xff, 0xff, 0xff, 0xff]));
    await sidecar.waitForStream(3);
    await eventually(() => shown(sidecar.stream, id));
    const { stream } = sidecar;
    for (let count = 0; count < 5_000; count++) {
      stream.send({ contextId: id, proposal: { case: 'suspend', value: { reason: 'wait' } } });
    }
    await healthy();
    expect((await owner.get(`/v1/plans/${id}`)).body.plan.status).toBe('pending');
  });

  it('contexts of a suspended tenant are withdrawn, and sent again when it is resumed', async () => {
    const lamp = await light();
    const { stream } = sidecar;
    const id = await goal();
    await eventually(() => shown(stream, id));
    const operator = at.api(await at.token('operator', { scope: 'platform:admin' }));
    await operator.post(`/v1/admin/tenants/${owner.tenantId}/suspend`);
    await eventually(() => stream.eventsOf('interruptSignal').length === 1);
    expect(stream.eventsOf('interruptSignal')).toMatchObject([{ contextId: id, reason: InterruptReason.SUSPENDED }]);
    stream.send({ contextId: id, proposal: onNode(lamp.id) });
    await eventually(() => rejected(stream).length === 1);
    expect(rejected(stream)[0]?.code).toBe('TENANT_SUSPENDED');
    const before = stream.eventsOf('perceptionUpdate').length;
    await operator.post(`/v1/admin/tenants/${owner.tenantId}/resume`);
    await eventually(() => stream.eventsOf('perceptionUpdate').length > before && shown(stream, id));
  });

  it('with cognition disabled nothing is sent or accepted, and afterwards everything is sent again', async () => {
    const { stream } = sidecar;
    const lamp = await light();
    const id = await goal();
    await eventually(() => shown(stream, id));
    const operator = at.api(await at.token('operator', { scope: 'platform:admin' }));
    await operator.post('/v1/admin/flags/cognition_disabled', { state: true });
    try {
      await eventually(() => stream.eventsOf('interruptSignal').some(({ contextId }) => contextId === id));
      stream.send({ contextId: id, proposal: onNode(lamp.id) });
      await eventually(() => rejected(stream).length === 1);
      expect(rejected(stream)[0]?.code).toBe('COGNITION_DISABLED');
      const payload = { text: 'light the hall' };
      expect((await owner.post('/v1/intent', { type: 'goal', payload })).body.code).toBe('COGNITION_DISABLED');
    } finally {
      const before = stream.eventsOf('perceptionUpdate').length;
      await operator.post('/v1/admin/flags/cognition_disabled', { state: false });
      await eventually(() => stream.eventsOf('perceptionUpdate').length > before && shown(stream, id));
    }
  });

  it('a cancelled plan interrupts it', async () => {
    const { stream } = sidecar;
    const id = await goal();
    await eventually(() => shown(stream, id));
    await owner.post(`/v1/plans/${id}/cancel`);
    await eventually(() => stream.eventsOf('interruptSignal').some(({ contextId }) => contextId === id));
    expect(stream.eventsOf('interruptSignal')[0]?.reason).toBe(InterruptReason.CANCELLED);
  });

  it('a proposal for an observation runs when a user accepts it, and the sidecar gets its events by name', async () => {
    const lamp = await light();
    const { stream } = sidecar;
    const body: JsonObject = { device_id: lamp.id, data: { lux: 3 }, context: 'It is evening.' };
    const id = (await owner.post('/v1/cognition/observation', body)).body.proposal_id;
    const notified = await eventually(() => shown(stream, id));
    expect(notified.activeContexts).toMatchObject([
      { kind: ContextKind.OBSERVATION, data: { lux: 3 }, note: 'It is evening.' },
    ]);
    stream.send({ proposalId: 'p-1', contextId: id, proposal: onNode(lamp.id) });
    await eventually(() => stream.eventsOf('graphStateUpdate').some(({ proposalId }) => proposalId === 'p-1'));
    expect(stream.eventsOf('graphStateUpdate')).toMatchObject([
      { contextId: id, nodeId: 'on', to: NodeState.PROPOSED },
    ]);
    stream.send({ contextId: id, proposal: complete });
    await eventually(async () => (await owner.post(`/v1/cognition/proposals/${id}/accept`)).status === 202);
    await eventually(() => stream.eventsOf('observationOutcome').length > 0);
    expect(stream.eventsOf('observationOutcome')).toMatchObject([{ contextId: id, nodeId: 'on', success: true }]);
    // The batch of the plan follows that of its command.
    const last = await eventually(() =>
      stream.eventsOf('graphStateUpdate').find(({ to }) => to === NodeState.SUCCEEDED),
    );
    expect(last).toMatchObject({ contextId: id, nodeId: 'on' });
  });

  it('is notified of a changed manifest and of a changed device', async () => {
    const lamp = await light();
    const { stream } = sidecar;
    const id = await goal();
    await eventually(() => shown(stream, id));
    const capabilities = [{ action: 'turn_on' }, { action: 'sing' }];
    expect((await owner.post(`/v1/devices/${lamp.id}/manifest`, { category: 'light', capabilities })).status).toBe(201);
    const set = await eventually(() =>
      stream
        .eventsOf('capabilitySync')
        .flatMap(({ sets }) => sets)
        .find(({ tools }) => tools.some(({ action }) => action === 'sing')),
    );
    await eventually(() => shown(stream, id)?.devices[0]?.capabilitySetId === set.capabilitySetId);
    await owner.patch(`/v1/devices/${lamp.id}`, { name: 'Chandelier' });
    await eventually(() => shown(stream, id)?.devices[0]?.name === 'Chandelier');
    await lamp.device.report({ on: true });
    await eventually(() => shown(stream, id)?.devices[0]?.state?.on === true);
  });
});

describe('the embedded sidecar', () => {
  it('starts with the service, plans for a goal, and ends with the service', async () => {
    const at = await startService({ SIDECAR: 'embedded' }, { limits });
    try {
      const owner = await at.owner();
      const registered = await register(owner, { device_type: 'light', name: 'Reading lamp' });
      const turn = (on: boolean) => () => ({ state: { on } });
      const device = await connect(registered, { commands: { turn_on: turn(true), turn_off: turn(false) } });
      await device.report({ on: true });
      await eventually(() => at.services.sidecar.connected());
      const payload = { text: 'turn off the reading lamp', home_id: owner.homeId };
      const { plan_id } = (await owner.post('/v1/intent', { type: 'goal', payload })).body;
      const plan = await eventually(async () => {
        const { plan } = (await owner.get(`/v1/plans/${plan_id}`)).body;
        return plan?.status === 'succeeded' ? plan : null;
      });
      expect(plan.steps).toMatchObject([{ device_id: registered.device_id, action: 'turn_off', status: 'succeeded' }]);
      await device.close(0);
    } finally {
      await at.stop();
    }
    expect(at.services.sidecar.connected()).toBe(false);
  });
});
